"""The replay of one flavor. It finds when a virtual spot instance, started at any moment, would have been evicted.

docs/forecast.md explains injection, buckets and censoring; `worlds` does the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.values import Policy
from app.engine.cloud import PLACEMENT_CODE
from app.engine.cluster import NEVER_US, Bools, Cluster, Ints
from app.forecast.operations import VIRTUAL, Operations
from app.forecast.states import (
    FORK_COUNT,
    MOST_STATES,
    OPERATION_COUNT,
    SLOTS,
    Worlds,
    first_run,
    with_room,
)
from app.forecast.worlds import advance, code_of, forget


class Samples(NamedTuple):
    """Times to eviction of M virtual instances.

    slots (M): available slots just before the injection, at least 1; lasted_us (M); was_evicted (M): False if the end
    of the history or the horizon censored the sample; started_us (M): the time of the injection.
    """

    slots: Ints
    lasted_us: Ints
    was_evicted: Bools
    started_us: Ints


class Replay:
    """Leads one flavor through the history. The state is kept, so a later epoch only runs its own operations."""

    def __init__(self, opening: Cluster, start_us: int, demand: Ints, policy: Policy) -> None:
        """`opening`: the state at `start_us`, with row VIRTUAL free; `demand` (R): the flavor's."""
        opening.demand[VIRTUAL] = demand
        opening.is_spot[VIRTUAL] = True
        opening.deadline_us[VIRTUAL] = NEVER_US
        self._policy = policy
        self.run = first_run(opening, start_us, PLACEMENT_CODE[policy.placement])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled replay; its arrays may have become read-only."""
        self.__dict__.update(state)
        self.run = Worlds._make(_writable(array) for array in self.run)

    @property
    def done(self) -> int:
        """The number of operations run."""
        return int(self.run.counters[OPERATION_COUNT])

    @property
    def fork_count(self) -> int:
        """The number of worlds forked."""
        return int(self.run.counters[FORK_COUNT])

    @property
    def most_worlds(self) -> int:
        """The largest number of worlds at one time."""
        return max(int(self.run.counters[MOST_STATES]) - 1, 0)

    def advance(
        self, operations: Operations, node_count: int, row_count: int, gaps: NDArray[np.int64] | None = None
    ) -> None:
        """Run the next operations; they must not touch nodes or rows beyond the given counts.

        `gaps`: those that will be asked for from now on, or None for any. They must be among the gaps of earlier calls,
        as far as those went.
        """
        done, count = self.done, len(operations.at_us)
        is_wanted = np.full(done + count + 1, gaps is None)
        if gaps is not None:
            is_wanted[gaps] = True
            forget(self.run, is_wanted)
        forks = self.fork_count + int(is_wanted[done:].sum())
        self.run = with_room(self.run, node_count, row_count, forks)
        code = code_of(self._policy)
        self.run = Worlds(*advance(self.run, operations, is_wanted[done:], code, self._policy.horizon_us))

    def samples(self, at_us: Ints, until_us: int, times_us: Ints) -> Samples:
        """Return the outcomes, as seen at `until_us`, of instances injected at `times_us`, all in [start, until_us).

        `at_us` (K): the times of all operations run, which are exactly those before `until_us`. Times at which the
        flavor did not fit give no sample.
        """
        slots, evicted_us = self._fates(at_us, np.searchsorted(at_us, times_us, side="right"))
        slots, evicted_us, times_us = slots[slots > 0], evicted_us[slots > 0], times_us[slots > 0]
        censored_us = np.minimum(until_us, times_us + self._policy.horizon_us)
        was_evicted = evicted_us <= censored_us
        return Samples(slots, np.where(was_evicted, evicted_us, censored_us) - times_us, was_evicted, times_us)

    def _fates(self, at_us: Ints, gaps: Ints) -> tuple[Ints, Ints]:
        """Return the available slots in these gaps, and the times at which instances injected there were evicted.

        A gap without a fork has no slots, except the last one, which is still open.
        """
        run, count = self.run, self.fork_count
        slots, evicted_us = np.zeros(len(gaps), np.int64), np.full(len(gaps), NEVER_US)
        slots[gaps == self.done] = run.counters[SLOTS]
        forks = np.searchsorted(run.fork_gap[:count], gaps)
        found = np.flatnonzero(forks < count)
        found = found[run.fork_gap[forks[found]] == gaps[found]]
        slots[found] = run.fork_slots[forks[found]]
        fates = run.fork_fate[forks[found]]
        evicted_us[found[fates >= 0]] = at_us[fates[fates >= 0]]
        return slots, evicted_us


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()
