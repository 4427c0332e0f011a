"""Computes quantile tables: a pure function of the policy and of the cloud's log before the due time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from app.domain.events import Recorded
from app.domain.progress import Progress
from app.domain.values import Forecast, Policy
from app.engine.cluster import Ints
from app.forecast.followed import FollowedStarts
from app.forecast.moments import independent_moments, nested_moments
from app.forecast.operations import Operations
from app.forecast.replay import Replay
from app.forecast.replayed import History
from app.forecast.states import world_bytes
from app.forecast.survival import Bucket, estimate_buckets
from app.forecast.table import QuantileTable, make_curve

WORLD_BYTES = 512 << 20
"""The approximate memory for the worlds of all flavors. If worlds are many or large, fewer samples are drawn."""
GAPS_PER_SAMPLE = 16
"""Histories up to this length get an injection in every gap, so more samples would add nothing."""


MOST_SAMPLES = 10_000_000
"""The number of samples of all flavors of a table together. Beyond it each flavor gets an equal part of them."""


MOST_BESIDE = 250_000
"""The operations times flavors up to which a worker makes replays of a cloud that does not decide by them."""


class _Injections(NamedTuple):
    """The drawing of a flavor's moments. `rate`: a microsecond, at most; None if every gap may get an injection."""

    flavor: bytes
    seed: int
    start_us: int
    until_us: int
    most: int
    rate: float | None

    def draw(self) -> Ints:
        """Return the moments (M)."""
        if self.rate is None:
            key = [self.seed, self.until_us, *self.flavor]
            return independent_moments(key, self.start_us, self.until_us, self.most)
        key = [self.seed, self.start_us, *self.flavor]
        return nested_moments(key, self.start_us, self.until_us, self.most, self.rate)


class _FlavorTask(NamedTuple):
    """The work left for one flavor. Its moments are drawn when its turn comes: those of all flavors may be many.

    A task is self-contained: it can be pickled, run elsewhere, and run again if that machine is lost.
    """

    flavor: str
    replay: Replay
    operations: Operations
    node_count: int
    row_count: int
    at_us: Ints
    until_us: int
    injections: _Injections


class Forecaster:
    """Computes one cloud's tables, epoch after epoch.

    Without a history window the replays continue from the last epoch. The table is the same that a new Forecaster would
    compute from the whole log.
    """

    def __init__(
        self,
        policy: Policy,
        forecasts: Collection[Forecast] = (Forecast.REPLAY,),
        *,
        most_replayed: int | None = None,
    ) -> None:
        """`policy` governs the whole replay: changes of policy in the log are ignored. Tables hold these forecasts, but
        no replays while operations times flavors exceed `most_replayed`.
        """
        self.policy = policy
        self._most_replayed = most_replayed
        self._forecasts = forecasts
        self._followed = FollowedStarts(policy) if Forecast.CALIBRATED in forecasts else None
        self._history = History(keeps_omitted=self._followed is not None)
        self._replays: dict[str, tuple[Replay, int]] = {}
        self._used: list[int] = []

    @property
    def kept_bytes(self) -> int:
        """The memory of what is kept for the next epoch, without the history."""
        kept = sum(array.nbytes for replay, _ in self._replays.values() for array in replay.run)
        return kept + (self._followed.kept_bytes if self._followed else 0)

    def forget_replays(self) -> None:
        """Give up what is kept for the next epoch. It begins anew then, with the same table."""
        self._replays.clear()

    def extend(self, recorded: Iterable[Recorded]) -> None:
        """Take the log's next events, in order and without gaps."""
        self._history.extend(recorded)

    def fold(self, until_us: int) -> None:
        """Fold the events before `until_us`, the next due time, as far as they were taken.

        Folded events use a tenth of the memory. `publish` folds the rest.
        """
        # No further than the last event taken, because those that follow it would come too late for the table.
        upto_us = min(until_us, self._history.taken_us)
        if self._followed:
            self._followed.read(self._history, upto_us)
        self._history.operations(upto_us)

    def publish(
        self,
        until_us: int,
        epoch: int,
        seq: int,
        *,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> QuantileTable:
        """Return the table of the epoch due at `until_us`, from the events before it. Due times must rise.

        1. Fold the new events into operations, count the rises of the on-demand load, and follow past starts.
        2. Lead every flavor's replay through them, in parallel if there is an executor (replays travel there and back).
        3. Estimate the curves from the samples.
        """
        # First, because it reads the new events in steps of days.
        rises = self._followed.publish(self._history, until_us) if self._followed else None
        tasks = self._plan(until_us)
        done = map(_run, tasks) if executor is None else executor.map(_run, tasks)
        curves = {}
        for task, (replay, found) in zip(tasks, done, strict=True):
            self._replays[task.flavor] = replay, self._replays[task.flavor][1]
            curves[task.flavor] = make_curve(found)
            if progress is not None:
                progress(len(curves), len(tasks))
        return QuantileTable(epoch, until_us, seq, curves, rises)

    def _plan(self, until_us: int) -> list[_FlavorTask]:
        history = self._history
        operations = history.operations(until_us)
        if Forecast.REPLAY not in self._forecasts or history.begin_us is None or until_us <= history.begin_us:
            return []
        if self._most_replayed is not None and len(operations.at_us) * len(history.flavors) > self._most_replayed:
            self._replays.clear()
            return []
        self._forget_outdated()
        operations = operations.counting_only(self._used)
        return [self._task(flavor, operations, history.begin_us, until_us) for flavor in history.flavors]

    def _forget_outdated(self) -> None:
        """Drop replays that began with other resources, and with a history window all of them."""
        used = self._history.used_resources()
        if used != self._used or self.policy.history_window_us is not None:
            self._replays.clear()
        self._used = used

    def _task(self, flavor: str, operations: Operations, begin_us: int, until_us: int) -> _FlavorTask:
        history, window_us = self._history, self.policy.history_window_us
        start_us = begin_us if window_us is None else max(begin_us, until_us - window_us)
        if flavor not in self._replays:
            opening = history.opening(start_us)
            opening = opening._replace(free=opening.free[:, self._used], demand=opening.demand[:, self._used])
            replay = Replay(opening, start_us, history.flavors[flavor][self._used], self.policy)
            self._replays[flavor] = replay, int(np.searchsorted(operations.at_us, start_us))
        replay, first = self._replays[flavor]
        rest, at_us = operations.part(first + replay.done), operations.at_us[first:]
        injections = self._injections(flavor, start_us, until_us, len(at_us))
        return _FlavorTask(flavor, replay, rest, history.node_count, history.row_count, at_us, until_us, injections)

    def _injections(self, flavor: str, start_us: int, until_us: int, gap_count: int) -> _Injections:
        """Return the drawing of the moments; if worlds are bounded, about that many lie in one horizon."""
        count = max(min(self.policy.sample_count, MOST_SAMPLES // len(self._history.flavors)), 1)
        most = self._most_worlds()
        every_gap = gap_count <= min(most, GAPS_PER_SAMPLE * count)
        rate = None if every_gap else most / min(until_us - start_us, self.policy.horizon_us)
        return _Injections(flavor.encode(), self.policy.seed, start_us, until_us, count, rate)

    def _most_worlds(self) -> int:
        """Return the number of worlds that a flavor may have at a time. It never rises as the cloud grows."""
        history = self._history
        each = world_bytes(history.node_count, history.row_count, len(self._used))
        return max(WORLD_BYTES // len(history.flavors) // each, 1)


def _run(task: _FlavorTask) -> tuple[Replay, list[Bucket]]:
    times_us = task.injections.draw()
    every_gap = task.injections.rate is None
    gaps = None if every_gap else np.searchsorted(task.at_us, times_us, side="right")
    task.replay.advance(task.operations, task.node_count, task.row_count, gaps)
    return task.replay, estimate_buckets(task.replay.samples(task.at_us, task.until_us, times_us))
