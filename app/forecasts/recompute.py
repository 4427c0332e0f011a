"""Recomputation of quantile tables (docs/architecture.md, *The life of a quantile table*).

A run takes the cloud's advisory lock, reads the log, replays it outside any transaction on the process's threads, and
publishes. A failed run leaves the old table in place, records its error, and is tried again after a pause, or
at once if only the database was out of reach.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from app.domain.errors import LogBroken, LogNewer, LogUnavailable
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.policies import protected
from app.domain.times import DAY_US, HOUR_US, SECOND_US, to_datetime
from app.domain.values import Basis, EvictionReason, Forecast, Market, Policy, Rejection, Resources
from app.engine.cloud import warm_up as warm_up_cloud
from app.forecast.compute import MOST_BESIDE, Forecaster
from app.forecasts.disturbances import Disturbance, Disturbances
from app.forecasts.places import Places
from app.forecasts.rules import Run, TableSummary
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import EpochTaken, Tables
from app.platform.database.lockids import forecast_lock
from app.platform.database.locks import Locks
from app.platform.telemetry.context import working_on
from app.platform.telemetry.metrics import RECOMPUTATION_S, RECOMPUTATIONS
from app.platform.telemetry.tracing import TRACES
from app.scheduling.appending import States
from app.scheduling.store.conflicts import PredecessorMissing
from app.scheduling.store.log import NO_EVENT, EventLog, EventMark

logger = logging.getLogger(__name__)

_READ_EVENTS = 20_000
_CLOUDS_AT_ONCE = 4
"""The number of clouds whose runs are executed at a time."""
KEPT_BYTES = 512 << 20
"""The memory for replays of all clouds that are kept for their next epochs. Beyond it those used longest ago go."""


@dataclass(slots=True)
class _KeptReplay:
    """A cloud's replay, kept between epochs; a later epoch only adds events. `due_us`: of the latest epoch.

    `mark`: of the last event that was read ahead of the first epoch; None once that was taken over.
    """

    settings: tuple[object, ...]
    forecaster: Forecaster
    seq: int = 0
    due_us: int = 0
    size: int = 0
    mark: EventMark | None = None


class _Disturbed(Exception):
    """The database was out of reach during a run, and answers again."""


class Forecasts:
    """Executes recomputations, one of a cloud at a time, under its lock."""

    def __init__(
        self,
        log: EventLog,
        states: States,
        tables: Tables,
        runs: Runs,
        locks: Locks,
        places: Places,
        now_us: Callable[[], int],
    ) -> None:
        self._log = log
        self._states = states
        self._tables = tables
        self._runs = runs
        self._locks = locks
        self._places = places
        self._now_us = now_us
        self._replays: dict[int, _KeptReplay] = {}
        self._busy: set[int] = set()
        self._disturbances = Disturbances(runs)
        self._at_once = asyncio.Semaphore(_CLOUDS_AT_ONCE)

    async def run_pending(self) -> int:
        """Execute pending runs and return the number that finished or failed.

        Those of a cloud are executed oldest first. Clouds do not wait for each other, but for places. What an earlier
        call still executes is left to it.
        """
        await self._disturbances.tell()
        of_cloud: dict[int, list[Run]] = {}
        for run in await self._runs.pending():
            if run.cloud_id not in self._busy:
                of_cloud.setdefault(run.cloud_id, []).append(run)
        self._busy |= of_cloud.keys()
        work = (self._run_all(cloud_id, runs) for cloud_id, runs in of_cloud.items())
        counts = await asyncio.gather(*work, return_exceptions=True)
        for error in counts:
            if isinstance(error, BaseException):
                raise error
        return sum(count for count in counts if isinstance(count, int))

    async def _run_all(self, cloud_id: int, runs: Sequence[Run]) -> int:
        try:
            async with self._at_once:
                return sum([await self.run(run) for run in runs])
        finally:
            self._busy.discard(cloud_id)

    async def run(self, run: Run) -> bool:
        """Execute one run, unless another worker holds the cloud's lock or has done it."""
        with working_on(run_id=run.number, cloud_id=run.cloud_id):
            try:
                return await self._run(run)
            except _Disturbed:  # the lock may have been lost as well, so it is taken again
                with suppress(_Disturbed):
                    return await self._run(run)
                return True

    async def _run(self, run: Run) -> bool:
        async with self._locks.held(forecast_lock(run.cloud_id)) as hold:
            is_mine = hold is not None and await self._is_readable(run.cloud_id)
            started_at = await self._runs.start(run.id) if is_mine else None
            if started_at is None:
                return False
            try:
                await self._attempt(run, started_at)
            except LogUnavailable as error:
                logger.warning("a run was disturbed", extra={"error": str(error)})
                self._replays.pop(run.cloud_id, None)
                RECOMPUTATIONS.labels("disturbed").inc()
                self._disturbances.add(Disturbance(run.id, started_at, f"{type(error).__name__}: {error}"))
                await self._disturbances.tell()
                raise _Disturbed from error
            self._disturbances.forget(run.id)
            return True

    async def _attempt(self, run: Run, started_at: datetime) -> None:
        """Try the run and store what came of it. Raises LogUnavailable where the database ended the attempt."""
        try:
            with TRACES.span("recompute", run_id=run.number, cloud_id=run.cloud_id, cause=run.cause):
                epoch = await self._recompute(run)
                TRACES.add(epoch=epoch)
        except LogUnavailable:
            raise
        except Exception as error:  # on any error the old table stays, the run records the error, and is retried
            logger.exception("a run failed")
            self._replays.pop(run.cloud_id, None)
            await self._runs.fail(run.id, started_at, f"{type(error).__name__}: {error}")
            RECOMPUTATIONS.labels("failed").inc()
        else:
            await self._runs.finish(run.id, started_at, epoch)
            RECOMPUTATIONS.labels("succeeded").inc()

    async def _is_readable(self, cloud_id: int) -> bool:
        """Return False if only a newer version's worker can execute the cloud's runs."""
        try:
            await self._states.current(cloud_id)
        except LogNewer:
            return False
        except LogBroken:  # the run will report it
            return True
        return True

    async def _recompute(self, run: Run) -> int:
        """Compute and publish the run's table, and return its epoch; the newest table's if that is recent enough."""
        began = perf_counter()
        cloud = await self._states.current(run.cloud_id)
        policy, seq, loads = cloud.policy, cloud.seq, self._states.appender(run.cloud_id).loads
        present_us = cloud.present_us(self._now_us())
        due_us = present_us if run.due_us is None else run.due_us
        await self._tables.remove_ahead(run.cloud_id)
        newest = next(iter(await self._tables.page(run.cloud_id, 1)), None)
        if newest is not None and newest.epoch_us >= due_us:
            return newest.epoch
        epoch = await self._next_epoch(run.cloud_id, newest)
        with TRACES.span("read", up_to_seq=seq):
            forecaster = await self._read(run.cloud_id, policy, seq, due_us)
        with TRACES.span("replay"):
            table = await asyncio.to_thread(
                forecaster.publish, due_us, epoch, seq, executor=self._places.of(run.cloud_id)
            )
            data = await asyncio.to_thread(table.to_bytes)
        self._bound_memory(run.cloud_id)
        await self._states.current(run.cloud_id)
        if self._states.appender(run.cloud_id).loads != loads:
            raise LogUnavailable("the log was cut off or put back while its table was computed")
        wall_s = perf_counter() - began
        with TRACES.span("publish", epoch=epoch), _while_locked():
            await self._tables.publish(run.cloud_id, epoch=epoch, epoch_us=due_us, seq=seq, data=data, wall_s=wall_s)
        RECOMPUTATION_S.observe(perf_counter() - began)
        as_of = to_datetime(due_us).isoformat()
        logger.info("a table was published", extra={"epoch": epoch, "as_of": as_of, "duration_s": round(wall_s, 3)})
        return epoch

    def _bound_memory(self, cloud_id: int) -> None:
        """Forget the replays that were used longest ago, until the others have the memory that they may have."""
        kept = self._replays.pop(cloud_id)
        kept.size = kept.forecaster.kept_bytes
        self._replays[cloud_id] = kept
        for other_id in [*self._replays]:
            if sum(one.size for one in self._replays.values()) <= KEPT_BYTES:
                return
            if other_id == cloud_id or other_id not in self._busy:
                del self._replays[other_id]

    async def _next_epoch(self, cloud_id: int, newest: TableSummary | None) -> int:
        """Return the epoch after all tables, including those that a backup lost and only the log mentions."""
        epoch, seq = (0, 0) if newest is None else (newest.epoch, newest.seq)
        return 1 + max(epoch, await self._log.highest_epoch(cloud_id, seq))

    async def _read(self, cloud_id: int, policy: Policy, seq: int, due_us: int) -> Forecaster:
        """Return the cloud's replay at `seq`, started anew if the policy or an earlier due time requires it."""
        settings = self._states.appender(cloud_id).loads, *_replay_settings(policy)
        replay = await self._taken_over(cloud_id, settings)
        if replay is None or replay.settings != settings or due_us < replay.due_us:
            replay = self._replays[cloud_id] = _KeptReplay(settings, _forecaster(policy))
        replay.due_us = due_us
        while replay.seq < seq:
            tail = await self._log.tail(cloud_id, replay.seq, min(_READ_EVENTS, seq - replay.seq))
            replay.forecaster.extend(tail)
            await asyncio.to_thread(replay.forecaster.fold, due_us)
            replay.seq = tail[-1].seq
        return replay.forecaster

    async def read_ahead(self, cloud_id: int) -> int:
        """Read the next events of a cloud that is being imported, for its first table; return how many.

        The caller holds the cloud's forecast lock. Raises PredecessorMissing if what was read before is not in the log.
        """
        replay = self._replays.get(cloud_id)
        if replay is None:
            policy = protected(await self._log.policy_at(cloud_id, 1))  # as most imports end
            replay = self._replays[cloud_id] = _KeptReplay(_replay_settings(policy), _forecaster(policy), mark=NO_EVENT)
        if replay.mark is None:
            return 0
        try:
            found, mark = await self._log.after(cloud_id, replay.mark, _READ_EVENTS)
        except PredecessorMissing:
            del self._replays[cloud_id]
            raise
        if found:
            replay.forecaster.extend(found)
            replay.mark, replay.seq, replay.due_us = mark, mark.seq, found[-1].event.at_us
            await asyncio.to_thread(replay.forecaster.fold, replay.due_us)
        return len(found)

    async def _taken_over(self, cloud_id: int, settings: tuple[object, ...]) -> _KeptReplay | None:
        """Return the cloud's replay. One that was read ahead counts from now on, if it is of the log that is there."""
        replay = self._replays.get(cloud_id)
        if replay is not None and replay.mark is not None:
            is_same = await self._log.mark_at(cloud_id, replay.mark.seq) == replay.mark
            if is_same and replay.settings == settings[1:]:
                replay.settings = settings
            replay.mark = None
        return replay


@contextmanager
def _while_locked() -> Iterator[None]:
    """Take it for a disturbance if another worker was first: this one has lost the lock."""
    try:
        yield
    except EpochTaken as error:
        raise LogUnavailable(f"the lock was lost while a table was computed: {error}") from error


def _forecaster(policy: Policy) -> Forecaster:
    most = None if policy.forecast is Forecast.REPLAY else MOST_BESIDE
    return Forecaster(policy, policy.forecasts(), most_replayed=most)


def _replay_settings(policy: Policy) -> tuple[object, ...]:
    """Return the part of a policy that a replay depends on."""
    window_us, horizon_us = policy.history_window_us, policy.horizon_us
    rules = policy.placement, policy.eviction_policy, policy.displaces_overrunning, policy.forecast
    return *rules, window_us, horizon_us, policy.sample_count, policy.seed


def warm_up() -> None:
    """Compile every function of a recomputation, so that a first table does not wait for the compiler.

    It computes a table from a log that takes every path that real ones take. What the live scheduler calls comes last,
    so that another process may compile it meanwhile.
    """
    events = _some_log()
    forecaster = Forecaster(Policy(sample_count=100), set(Forecast))
    forecaster.extend(Recorded(seq, event) for seq, event in enumerate(events, 1))
    forecaster.publish(DAY_US + HOUR_US, 1, len(events))
    warm_up_cloud()


def _some_log() -> list[Event]:
    """Return a day that contains an eviction, and a rejected start to follow on the next one."""
    return [
        CloudCreated(at_us=0, policy=Policy()),
        NodeAdded(at_us=0, node="node", capacity=Resources(2)),
        FlavorAdded(at_us=0, flavor="small", demand=Resources(1)),
        FlavorAdded(at_us=0, flavor="large", demand=Resources(2)),
        InstanceStarted(
            at_us=0,
            instance_id="spot",
            market=Market.SPOT,
            flavor="small",
            node="node",
            lifetime_us=HOUR_US,
            probability=None,
            basis=Basis(2),
        ),
        InstanceEvicted(at_us=SECOND_US, instance_id="spot", reason=EvictionReason.ON_DEMAND_START, cause_seq=7),
        InstanceStarted(
            at_us=SECOND_US,
            instance_id="on-demand",
            market=Market.ON_DEMAND,
            flavor="large",
            node="node",
            victims=("spot",),
        ),
        InstanceStopped(at_us=2 * SECOND_US, instance_id="on-demand"),
        InstanceRejected(
            at_us=DAY_US,
            instance_id="rejected",
            market=Market.SPOT,
            flavor="small",
            reason=Rejection.NO_HISTORY,
            lifetime_us=SECOND_US,
        ),
    ]
