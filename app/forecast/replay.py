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
from app.forecast.worlds import (
    BASE,
    COUNTER_COUNT,
    GAP,
    GAP_COUNT,
    NONE,
    NOW,
    WORLD,
    WORLD_COUNT,
    YOUNGEST,
    Records,
    Run,
    advance,
    view,
)

_FIRST_WORLDS = 16


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
        counters = np.zeros(COUNTER_COUNT, np.int64)
        counters[NOW] = start_us
        counters[WORLD_COUNT] = 1
        counters[YOUNGEST] = opening.born.max()
        self._policy = policy
        self.run = _first_run(opening, counters)

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
        lasted_us = np.where(was_evicted, evicted_us[gap], censored_us) - times_us
        return Samples(slots[gap], lasted_us, was_evicted, times_us)

    def _gaps(self) -> tuple[Ints, Ints, Ints]:
        """Starts, slots and eviction times of the gaps, the one that is still open included."""
        run, count = self.run, self.run.counters[GAP_COUNT]
        slots = available_slots(view(run, BASE), run.demand[VIRTUAL])
        return (
            np.append(run.gaps["start_us"][:count], run.counters[NOW]),
            np.append(run.gaps["slots"][:count], slots),
            np.append(run.gaps["evicted_us"][:count], NEVER_US),
        )

    def _make_room(self, operation_count: int, node_count: int, row_count: int) -> None:
        run = self.run
        gap_count = int(run.counters[GAP_COUNT]) + operation_count
        self.run = run._replace(
            free=_padded(run.free, 1, node_count),
            node_of=_padded(run.node_of, 1, row_count, NO_NODE),
            is_open=_padded(run.is_open, 0, node_count),
            demand=_padded(run.demand, 0, row_count),
            born=_padded(run.born, 0, row_count),
            deadline_us=_padded(run.deadline_us, 0, row_count),
            is_spot=_padded(run.is_spot, 0, row_count),
            gaps=run.gaps if gap_count <= len(run.gaps) else _longer(run.gaps, gap_count + gap_count // 2),
            gone=_padded(run.gone, 0, row_count),
        )

    def _double_worlds(self) -> None:
        run, count = self.run, len(self.run.slot)
        self.run = run._replace(
            slot=np.append(run.slot, np.arange(count, 2 * count)),
            worlds=_longer(run.worlds, 2 * count),
            free=_padded(run.free, 0, 2 * count),
            node_of=_padded(run.node_of, 0, 2 * count),
        )


def _padded(array: np.ndarray, axis: int, size: int, fill: int = 0) -> np.ndarray:
    """The array itself, or a longer copy along one axis."""
    if size <= array.shape[axis]:
        return array
    more = [(0, size - length if dimension == axis else 0) for dimension, length in enumerate(array.shape)]
    return np.pad(array, more, constant_values=fill)


def _longer(records: Records, size: int) -> Records:
    return np.concatenate([records, np.zeros(size - len(records), records.dtype)])


def _first_run(opening: Cluster, counters: Ints) -> Run:
    """No gap and only the base world yet, but slots for the first alternatives."""
    free, node_of = opening.free[np.newaxis], opening.node_of[np.newaxis]
    worlds = np.zeros(_FIRST_WORLDS, WORLD)
    worlds["older"] = NONE
    return Run(
        slot=np.arange(_FIRST_WORLDS),
        worlds=worlds,
        free=_padded(free, 0, _FIRST_WORLDS),
        node_of=_padded(node_of, 0, _FIRST_WORLDS),
        is_open=opening.is_open,
        demand=opening.demand,
        born=opening.born,
        deadline_us=opening.deadline_us,
        is_spot=opening.is_spot,
        gaps=np.zeros(0, GAP),
        counters=counters,
        gone=np.empty(len(opening.node_of), np.int64),
    )
