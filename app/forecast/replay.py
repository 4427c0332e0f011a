"""One flavor's replay: when would a virtual spot instance, started at any moment of the history, have been evicted?

Injection and buckets follow spot-sla-conference, II.B, censoring follows design/forecast.md; `worlds` does the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from app.domain.values import Policy
from app.engine.cloud import POLICY_CODE
from app.engine.cluster import NEVER_US, NO_NODE, Bools, Cluster, Ints, slots_on
from app.forecast.differences import (
    COUNTER_COUNT,
    NONE,
    NOW,
    OPERATION_COUNT,
    SLOTS,
    WORLD,
    YOUNGEST,
    YOUNGEST_SPOT,
    Run,
)
from app.forecast.history import VIRTUAL, Operations, ShortInts
from app.forecast.worlds import advance, next_older

_FIRST_WORLDS = 16
_FIRST_DIFFERENCES = 8


class Samples(NamedTuple):
    """Times to eviction of virtual instances, M of them.

    slots (M): available slots just before the injection, at least 1; lasted_us (M); was_evicted (M): False where the
    end of the history or the horizon censored the sample; started_us (M): when it was injected.
    """

    slots: Ints
    lasted_us: Ints
    was_evicted: Bools
    started_us: Ints


class Replay:
    """Runs the history on. What was run stays, so a later epoch only adds its own operations."""

    def __init__(self, opening: Cluster, start_us: int, demand: Ints, policy: Policy) -> None:
        """`opening`: the state at `start_us`, its row VIRTUAL free; `demand` (R): the flavor's."""
        opening.demand[VIRTUAL] = demand
        opening.is_spot[VIRTUAL] = True
        opening.deadline_us[VIRTUAL] = NEVER_US
        self._policy = policy
        self.run = _first_run(opening, start_us)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """After a journey the arrays may not be writable."""
        self.__dict__.update(state)
        base = Cluster._make([_writable(array) for array in self.run.base])
        self.run = Run._make([base, *(_writable(array) for array in self.run[1:])])

    @property
    def done(self) -> int:
        """How many operations were run."""
        return int(self.run.counters[OPERATION_COUNT])

    def advance(self, operations: Operations, node_count: int, row_count: int) -> None:
        """Run the next operations; they touch no node and no row beyond the given counts."""
        self._make_room(len(operations.at_us), node_count, row_count)
        code = POLICY_CODE[self._policy.eviction_policy]
        self.run = Run(*advance(self.run, operations, code, self._policy.horizon_us))

    def samples(self, at_us: Ints, until_us: int, times_us: Ints) -> Samples:
        """What became of instances injected at `times_us`, all in [start, until_us), as seen at `until_us`.

        `at_us` (K): of all operations that were run; none before `until_us` is missing and none is later. Times at
        which the flavor did not fit give no sample.
        """
        slots, fate = self._gaps()
        gap = np.searchsorted(at_us, times_us, side="right")
        fits = slots[gap] > 0
        gap, times_us = gap[fits], times_us[fits]
        evicted_us = np.full(len(gap), NEVER_US)
        evicted = fate[gap] >= 0
        evicted_us[evicted] = at_us[fate[gap[evicted]]]
        censored_us = np.minimum(until_us, times_us + self._policy.horizon_us)
        was_evicted = evicted_us <= censored_us
        return Samples(slots[gap], np.where(was_evicted, evicted_us, censored_us) - times_us, was_evicted, times_us)

    def _gaps(self) -> tuple[Ints, ShortInts]:
        """Slots and fates of the gaps, the one that is still open included."""
        run, last = self.run, self.done
        run.gap_slots[last], run.gap_fate[last] = run.counters[SLOTS], NONE
        return run.gap_slots, run.gap_fate

    def _make_room(self, operation_count: int, node_count: int, row_count: int) -> None:
        run, base = self.run, self.run.base
        gap_count = self.done + operation_count + 1
        self.run = run._replace(
            base=Cluster(
                free=_padded(base.free, node_count),
                is_open=_padded(base.is_open, node_count),
                node_of=_padded(base.node_of, row_count, NO_NODE),
                demand=_padded(base.demand, row_count),
                born=_padded(base.born, row_count),
                deadline_us=_padded(base.deadline_us, row_count),
                is_spot=_padded(base.is_spot, row_count),
            ),
            slots=_padded(run.slots, node_count),
            strays=_padded(run.strays, row_count),
            gap_slots=_padded(run.gap_slots, gap_count),
            gap_fate=_padded(run.gap_fate, gap_count),
            gone=_padded(run.gone, row_count),
            lost=_padded(run.lost, row_count),
        )


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _padded(array: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    """The array itself, or a longer copy along its first axis."""
    if size <= len(array):
        return array
    longer = np.full((size, *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer


def _first_run(opening: Cluster, start_us: int) -> Run:
    """No gap and only the base yet, but room for the first worlds."""
    node_count, resource_count = opening.free.shape
    opening = opening._replace(free=opening.free.copy(order="C"), demand=opening.demand.copy(order="C"))
    row_count, shape = len(opening.node_of), (_FIRST_WORLDS, _FIRST_DIFFERENCES)
    slots = [slots_on(opening, opening.demand[VIRTUAL], node) for node in range(node_count)]
    counters = np.zeros(COUNTER_COUNT, np.int64)
    counters[NOW], counters[SLOTS], counters[YOUNGEST] = start_us, sum(slots), opening.born.max()
    opening.born[VIRTUAL] = NEVER_US
    counters[YOUNGEST_SPOT] = next_older(opening)
    return Run(
        base=opening,
        slots=np.array(slots, np.int64),
        worlds=np.zeros(_FIRST_WORLDS, WORLD),
        digests=np.zeros(_FIRST_WORLDS, np.int64),
        moved_row=np.zeros(shape, np.int32),
        moved_to=np.zeros(shape, np.int32),
        room_node=np.zeros(shape, np.int32),
        room=np.zeros((*shape, resource_count), np.int64),
        strays=np.zeros(row_count, np.int64),
        gap_slots=np.zeros(0, np.int64),
        gap_fate=np.zeros(0, np.int32),
        counters=counters,
        gone=np.empty(row_count, np.int64),
        lost=np.empty(row_count, np.int64),
    )
