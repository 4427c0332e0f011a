"""One flavor's replay: when would a virtual spot instance, started at any moment of the history, have been evicted?

Injection and buckets follow spot-sla-conference, II.B, censoring follows design/forecast.md; `worlds` does the work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.domain.values import Policy
from app.engine.cloud import POLICY_CODE
from app.engine.cluster import NEVER_US, NO_NODE, Bools, Cluster, Ints, available_slots
from app.forecast.history import VIRTUAL, Operations
from app.forecast.worlds import COUNTER_COUNT, GAP_COUNT, NOW, YOUNGEST, Gaps, Run, Worlds, advance

_FIRST_WORLDS = 16


class Samples(NamedTuple):
    """Times to eviction of virtual instances, M of them.

    slots (M): available slots just before the injection, at least 1; lasted_us (M); was_evicted (M): False where the
    end of the history or the horizon censored the sample.
    """

    slots: Ints
    lasted_us: Ints
    was_evicted: Bools


class Replay:
    """Runs the history on. What was run stays, so a later epoch only adds its own operations."""

    def __init__(self, opening: Cluster, start_us: int, demand: Ints, policy: Policy) -> None:
        """`opening`: the state at `start_us`, its row VIRTUAL free; `demand` (R): the flavor's."""
        opening.demand[VIRTUAL] = demand
        opening.is_spot[VIRTUAL] = True
        opening.deadline_us[VIRTUAL] = NEVER_US
        counters = np.zeros(COUNTER_COUNT, np.int64)
        counters[NOW] = start_us
        counters[YOUNGEST] = opening.born.max()
        self._policy = policy
        self.run = Run(opening, _worlds(opening), _gaps(), counters, np.empty(len(opening.node_of), np.int64))

    def advance(self, operations: Operations, node_count: int, row_count: int) -> None:
        """Run the next operations; they touch no node and no row beyond the given counts."""
        self._make_room(len(operations.at_us), node_count, row_count)
        code, horizon_us = POLICY_CODE[self._policy.eviction_policy], self._policy.horizon_us
        while len(operations.at_us):
            done = advance(self.run, operations, code, horizon_us)
            operations = Operations(*(column[done:] for column in operations))
            if len(operations.at_us):
                self._double_worlds()

    def samples(self, until_us: int, times_us: Ints) -> Samples:
        """What became of instances injected at `times_us`, all in [start, until_us), as seen at `until_us`.

        Every operation before `until_us` was run, none later. Times at which the flavor did not fit give no sample.
        """
        starts_us, slots, evicted_us = self._gaps()
        gap = np.searchsorted(starts_us, times_us, side="right") - 1
        fits = slots[gap] > 0
        gap, times_us = gap[fits], times_us[fits]
        censored_us = np.minimum(until_us, times_us + self._policy.horizon_us)
        was_evicted = evicted_us[gap] <= censored_us
        return Samples(slots[gap], np.where(was_evicted, evicted_us[gap], censored_us) - times_us, was_evicted)

    def _gaps(self) -> tuple[Ints, Ints, Ints]:
        """Starts, slots and eviction times of the gaps, the one that is still open included."""
        run, count = self.run, self.run.counters[GAP_COUNT]
        slots = available_slots(run.base, run.base.demand[VIRTUAL])
        return (
            np.append(run.gaps.start_us[:count], run.counters[NOW]),
            np.append(run.gaps.slots[:count], slots),
            np.append(run.gaps.evicted_us[:count], NEVER_US),
        )

    def _make_room(self, operation_count: int, node_count: int, row_count: int) -> None:
        base, worlds, gaps, counters, gone = self.run
        base = base._replace(
            free=_padded(base.free, 0, node_count),
            is_open=_padded(base.is_open, 0, node_count),
            node_of=_padded(base.node_of, 0, row_count, NO_NODE),
            demand=_padded(base.demand, 0, row_count),
            born=_padded(base.born, 0, row_count),
            deadline_us=_padded(base.deadline_us, 0, row_count),
            is_spot=_padded(base.is_spot, 0, row_count),
        )
        worlds = worlds._replace(
            free=_padded(worlds.free, 1, node_count), node_of=_padded(worlds.node_of, 1, row_count, NO_NODE)
        )
        needed = int(counters[GAP_COUNT]) + operation_count
        if needed > len(gaps.start_us):
            gaps = Gaps(*(_padded(column, 0, needed + needed // 2) for column in gaps))
        self.run = Run(base, worlds, gaps, counters, _padded(gone, 0, row_count))

    def _double_worlds(self) -> None:
        worlds, count = self.run.worlds, len(self.run.worlds.slot)
        grown = Worlds(*(_padded(column, 0, 2 * count) for column in worlds))
        grown.slot[count:] = np.arange(count, 2 * count)
        self.run = self.run._replace(worlds=grown)


def _padded(array: np.ndarray, axis: int, size: int, fill: int = 0) -> np.ndarray:
    """The array itself, or a longer copy along one axis."""
    if size <= array.shape[axis]:
        return array
    more = [(0, size - length if dimension == axis else 0) for dimension, length in enumerate(array.shape)]
    return np.pad(array, more, constant_values=fill)


def _worlds(base: Cluster) -> Worlds:
    """Slots for the first worlds; what they hold is written when they are forked."""
    number = np.zeros(_FIRST_WORLDS, np.int64)
    return Worlds(
        slot=np.arange(_FIRST_WORLDS),
        free=np.zeros((_FIRST_WORLDS, *base.free.shape), np.int64),
        node_of=np.zeros((_FIRST_WORLDS, *base.node_of.shape), np.int64),
        digest=number,
        born=number.copy(),
        older=number.copy(),
        first_gap=number.copy(),
        last_gap=number.copy(),
        newest_us=number.copy(),
        is_changed=np.zeros(_FIRST_WORLDS, np.bool_),
    )


def _gaps() -> Gaps:
    return Gaps(*(np.empty(0, np.int64) for _ in Gaps._fields))
