"""Leads the state that a log records through the log, and past spot starts beside it to their ends.

State 0 is the recorded one: instances lie where the log placed them, and leave when the log says. Whatever a forecast
would have read of a start is read there, at the start's place in the log. An admitted start has its own fate. Beside
state 0 stand a few worlds, each with one rejected start as a virtual instance: it is put into the recorded state of its
moment, as the youngest there, and the engine decides all that follows (`worlds` does the same from a replayed state).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.domain.strata import STRATA
from app.domain.times import HOUR_US
from app.domain.values import Placement, Resources
from app.engine.cloud import PLACEMENT_CODE
from app.engine.cluster import GOES_FIRST_US, NEVER_US, NO_NODE, Bools, Cluster, Ints, empty_cluster
from app.engine.compiled import bare, compiled, inner
from app.engine.intervals import EDGES_US
from app.engine.outlook import look_ahead
from app.forecast.calibrated import eviction_probability, window_count
from app.forecast.design import Spans, close_spans, drop_start, end_start, open_start
from app.forecast.level import EndCounts, count_case, stratum_index
from app.forecast.operations import (
    DRILLED,
    END,
    EXTENDED,
    MOVED,
    NO_SIZE,
    NODE_ADDED,
    NODE_REMOVED,
    NODE_RESIZED,
    REJECTED,
    START_ON_DEMAND,
    START_SPOT,
    VIRTUAL,
    Omitted,
    Operations,
)
from app.forecast.rise import Rises
from app.forecast.states import (
    NONE,
    OPERATION_COUNT,
    STATE_COUNT,
    YOUNGEST,
    YOUTH_COUNT,
    Worlds,
    copy_state,
    first_run,
    fitting_node_there,
    put,
    take,
    with_room,
)
from app.forecast.survival import Floats
from app.forecast.worlds import enter, evict, give_up, move, rules_at, shrink, spot_rows_on, start

LONGEST_US = EDGES_US[-1]
"""The longest lifetime that is followed, 57 days."""
PACE_US = HOUR_US // 12
PACE_PARTS = 32
"""The starts of a stratum are followed at least five minutes apart, and a 32nd of the last one's lifetime."""
REJECTED_PACE_US = HOUR_US // 3
REJECTED_PARTS = 8
"""Likewise rejected ones among each other, because each costs a world for as long as it lives."""
MOST_WORLDS = 64
_PLACES = 1024
"""The paces let some 700 starts be followed at a time; further ones are not."""
_FREE = -1


class PendingStarts(NamedTuple):
    """The followed starts whose ends are not known yet, in P places.

    lifetime_us: _FREE in a free place; said: the probability that was estimated, without a level; leveled: with that of
    the time; windows: of the history then; row: of an admitted one while it runs; size: of a rejected one's demand.
    """

    at_us: Ints
    lifetime_us: Ints
    said: Floats
    leveled: Floats
    windows: Floats
    row: Ints
    size: Ints


class Learned(NamedTuple):
    """The lessons of the ends of followed starts: the counts behind the level, and the spans behind design effects."""

    counts: EndCounts
    spans: Spans


class RecordedState(NamedTuple):
    """The recorded state, with the worlds beside it.

    load, peak (R): of the admitted on-demand instances, now and the highest; capacity (N, R): of each node; place_of
    (S): the place of the followed start that runs in a row, or NONE; were_extended (S); next_us (2, strata): when the
    next start, and the next rejected one, may be followed.
    """

    run: Worlds
    load: Ints
    peak: Ints
    capacity: Ints
    place_of: Ints
    were_extended: Bools
    next_us: Ints
    pending: PendingStarts


def first_recorded(placement: Placement) -> RecordedState:
    """Return the state before the first event."""
    resources = len(Resources._fields)
    opening = empty_cluster(0, VIRTUAL + 1, resources)
    opening.is_spot[VIRTUAL] = True
    opening.deadline_us[VIRTUAL] = NEVER_US
    load, peak = np.zeros((2, resources), np.int64)
    at_us, lifetime_us, row, size = np.full((4, _PLACES), _FREE, np.int64)
    said, leveled, windows = np.zeros((3, _PLACES))
    pending = PendingStarts(at_us, lifetime_us, said, leveled, windows, row, size)
    run = with_room(first_run(opening, 0, PLACEMENT_CODE[placement]), 0, 1, _PLACES)
    nowhere, not_extended, next_us = np.full(1, NONE), np.zeros(1, np.bool_), np.full((2, len(STRATA)), -NEVER_US)
    return RecordedState(run, load, peak, opening.free.copy(), nowhere, not_extended, next_us, pending)


def enlarged_recorded(state: RecordedState, node_count: int, row_count: int, *, has_rejected: bool) -> RecordedState:
    """Return the state with room for so many nodes and rows, and for worlds if a rejected start is to come."""
    nodes, rows = node_count - len(state.capacity), row_count - len(state.place_of)
    return state._replace(
        run=with_room(state.run, node_count, row_count, 0, MOST_WORLDS + 1 if has_rejected else 0),
        capacity=np.pad(state.capacity, ((0, nodes), (0, 0))),
        place_of=np.pad(state.place_of, (0, rows), constant_values=NONE),
        were_extended=np.pad(state.were_extended, (0, rows)),
    )


@compiled
def read(
    state: RecordedState,
    learned: Learned,
    operations: Operations,
    omitted: Omitted,
    rises: Rises,
    policy: int,
    until_us: int,
) -> None:
    """Lead the state through all that is new before `until_us`, and count the ends that became known.

    `operations`: all of the history, of which those read before are skipped; `omitted`: what is new; `rises`: what the
    starts read; nothing is followed while they have seen nothing.
    """
    done, at = state.run.counters[OPERATION_COUNT], 0
    for index in range(done, operations.at_us.shape[0]):
        while at < omitted.before.shape[0] and omitted.before[at] <= index:
            read_omitted(state, learned, operations, omitted, at, rises)
            at += 1
        read_operation(state, learned, operations, index, rises, policy)
        state.run.counters[OPERATION_COUNT] += 1
    while at < omitted.before.shape[0]:
        read_omitted(state, learned, operations, omitted, at, rises)
        at += 1
    settle(state, learned, until_us)


@inner
def read_omitted(
    state: RecordedState, learned: Learned, operations: Operations, omitted: Omitted, at: int, rises: Rises
) -> None:
    """Follow a rejected start, or let an evicted instance leave."""
    at_us = omitted.at_us[at]
    if omitted.kind[at] == REJECTED:
        place = meet(state, learned, operations, rises, at_us, omitted.lifetime_us[at], omitted.size[at], NONE)
        if place != NONE:
            fork(state, operations, place)
        return
    row, pending = omitted.row[at], state.pending
    take(state.run, 0, row)
    place, state.place_of[row] = state.place_of[row], NONE
    if place == NONE:
        return
    pending.row[place] = NONE
    if at_us - pending.at_us[place] <= pending.lifetime_us[place]:
        # A drill within the lifetime says nothing of the load.
        if omitted.kind[at] != DRILLED:
            end(state, learned, place, 1)
        else:
            drop_start(learned.spans, stratum_index(pending.lifetime_us[place]), pending.at_us[place])
            pending.lifetime_us[place] = _FREE


@inner
def read_operation(
    state: RecordedState, learned: Learned, operations: Operations, index: int, rises: Rises, policy: int
) -> None:
    """Lead the recorded state and the worlds through an operation, after following it if it is a spot start."""
    run, kind, target = state.run, operations.kind[index], operations.target[index]
    at_us, size = operations.at_us[index], operations.size[index]
    place = NONE
    is_promised = operations.deadline_us[index] != GOES_FIRST_US
    if kind == START_SPOT and is_promised and not has_fellow_behind(operations, index):
        place = meet(state, learned, operations, rises, at_us, operations.deadline_us[index] - at_us, size, target)
    enter(run, operations, index)
    if kind <= EXTENDED:
        state.were_extended[target] = kind == EXTENDED
    if run.counters[STATE_COUNT] > 1:
        lead_worlds(state, learned, operations, index, policy)
    if kind <= START_SPOT and operations.node[index] != NO_NODE:
        put(run, 0, target, operations.node[index])
        state.place_of[target] = place
        if kind == START_ON_DEMAND:
            change_load(state, operations.sizes[size], 1)
    elif kind == END and run.node_of[0, target] != NO_NODE:
        take(run, 0, target)
        unlink(state, target)
        if not run.is_spot[target]:
            change_load(state, run.demand[target], -1)
    elif kind == MOVED and run.node_of[0, target] != NO_NODE:
        take(run, 0, target)
        put(run, 0, target, operations.node[index])
    elif kind in (NODE_ADDED, NODE_RESIZED):
        state.capacity[target] = operations.sizes[size]


@bare
def has_fellow_behind(operations: Operations, index: int) -> bool:
    """Return True if the next start is of the same group. Of a group the last member is followed, the others run."""
    behind = index + 1
    return bool(behind < operations.born.shape[0] and operations.born[behind] == operations.born[index])


@bare
def change_load(state: RecordedState, demand: Ints, sign: int) -> None:
    """Change the on-demand load, and the highest so far."""
    for r in range(demand.shape[0]):
        state.load[r] += sign * demand[r]
        state.peak[r] = max(state.peak[r], state.load[r])


@bare
def unlink(state: RecordedState, row: int) -> None:
    """Forget which followed start runs in the row."""
    if state.place_of[row] != NONE:
        state.pending.row[state.place_of[row]] = NONE
        state.place_of[row] = NONE


@inner
def meet(
    state: RecordedState,
    learned: Learned,
    operations: Operations,
    rises: Rises,
    at_us: int,
    lifetime_us: int,
    size: int,
    row: int,
) -> int:
    """Take a start among the pending ones and return its place, or NONE if it is not followed.

    A start is not followed if one of its stratum was just before, or if it does not fit.
    """
    stratum, is_rejected, pending = stratum_index(lifetime_us), int(row == NONE), state.pending
    if rises.seen_us == 0 or lifetime_us > LONGEST_US or at_us < state.next_us[: is_rejected + 1, stratum].max():
        return NONE
    demand = operations.sizes[size]
    there, sizes = recorded_cluster(state.run), state.capacity
    outlook = look_ahead(there, state.were_extended, sizes, demand, state.load, state.peak, NEVER_US, at_us)
    place = free_place(state, at_us, is_rejected == 1)
    if outlook.slots <= 0 or place == NONE:
        return NONE
    state.next_us[0, stratum] = at_us + max(PACE_US, lifetime_us // PACE_PARTS)
    if is_rejected:
        state.next_us[1, stratum] = at_us + max(REJECTED_PACE_US, lifetime_us // REJECTED_PARTS)
    pending.at_us[place], pending.lifetime_us[place] = at_us, lifetime_us
    pending.row[place], pending.size[place] = row, size
    pending.leveled[place] = eviction_probability(rises, outlook, lifetime_us)
    pending.said[place] = eviction_probability(without_level(rises), outlook, lifetime_us)
    pending.windows[place] = window_count(rises.seen_us, lifetime_us)
    open_start(learned.spans, stratum, at_us)
    return place


@inner
def without_level(rises: Rises) -> Rises:
    """Return the rises as before any start was followed."""
    return Rises(
        rises.rooms,
        rises.counts,
        rises.shares,
        rises.seen_us,
        0.0,
        rises.starts,
        rises.effects,
        rises.spreads,
        rises.activity,
        rises.heights,
    )


@inner
def recorded_cluster(run: Worlds) -> Cluster:
    """Return the recorded state as a cluster, for functions that count references (unlike `states.cluster_of`)."""
    return Cluster(run.free[0], run.is_open, run.node_of[0], run.demand, run.born, run.deadline_us, run.is_spot)


@bare
def free_place(state: RecordedState, at_us: int, needs_world: bool) -> int:  # noqa: FBT001 - compiled
    """Return a free place, NONE if there is none, or no room for a world that is needed."""
    if needs_world:
        end_worlds(state, at_us)
        if state.run.counters[STATE_COUNT] == state.run.states.shape[0]:
            return NONE
    for place in range(state.pending.lifetime_us.shape[0]):
        if state.pending.lifetime_us[place] == _FREE:
            return place
    return NONE


@bare
def fork(state: RecordedState, operations: Operations, place: int) -> None:
    """Add a copy of the recorded state with the rejected start in it, younger than all others."""
    run = state.run
    k = run.counters[STATE_COUNT]
    run.counters[STATE_COUNT] += 1
    copy_state(run, 0, k)
    run.states[k].born = run.counters[YOUNGEST] + 1
    run.states[k].first_fork = run.states[k].last_fork = place
    run.fork_fate[place] = NONE
    become(state, operations, place)
    put(run, k, VIRTUAL, fitting_node_there(run, k, run.demand[VIRTUAL]))


@bare
def become(state: RecordedState, operations: Operations, place: int) -> None:
    """Give the row of virtual instances the demand of the one at this place."""
    demand = operations.sizes[state.pending.size[place]]
    for r in range(demand.shape[0]):
        state.run.demand[VIRTUAL, r] = demand[r]


@inner
def lead_worlds(state: RecordedState, learned: Learned, operations: Operations, index: int, policy: int) -> None:
    """Lead the worlds through an operation, the last first, because one given up leaves its place to the last."""
    run, kind, target = state.run, operations.kind[index], operations.target[index]
    end_worlds(state, operations.at_us[index])
    run.counters[YOUTH_COUNT], rules = NONE, rules_at(operations, index, policy)
    for k in range(run.counters[STATE_COUNT] - 1, 0, -1):
        place = run.states[k].first_fork
        if kind == END:
            if run.node_of[k, target] != NO_NODE:
                take(run, k, target)
        elif kind <= START_SPOT:
            become(state, operations, place)
            start(run, k, kind, target, operations.at_us[index], rules)
        elif kind == MOVED:
            move(run, k, target, operations.node[index])
        elif kind == NODE_REMOVED:
            evict(run, k, spot_rows_on(run, k, target))
        elif kind == NODE_RESIZED:
            shrink(run, k, target, operations.sizes[NO_SIZE], operations.at_us[index])
        if run.fork_fate[place] != NONE:
            end(state, learned, place, 1)


@bare
def end_worlds(state: RecordedState, until_us: int) -> None:
    """Give up the worlds whose virtual instances have outlived their lifetimes."""
    pending, run = state.pending, state.run
    for k in range(run.counters[STATE_COUNT] - 1, 0, -1):
        place = run.states[k].first_fork
        if pending.at_us[place] + pending.lifetime_us[place] < until_us:
            give_up(run, k)


@inner
def settle(state: RecordedState, learned: Learned, until_us: int) -> None:
    """Count the pending starts that have outlived their lifetimes."""
    end_worlds(state, until_us)
    pending = state.pending
    for place in range(pending.lifetime_us.shape[0]):
        lifetime_us = pending.lifetime_us[place]
        if lifetime_us != _FREE and pending.at_us[place] + lifetime_us < until_us:
            if pending.row[place] != NONE:
                unlink(state, pending.row[place])
            end(state, learned, place, 0)
    close_spans(learned.spans, until_us)


@inner
def end(state: RecordedState, learned: Learned, place: int, evicted: int) -> None:
    """Count the end of a pending start, and free its place."""
    pending = state.pending
    at_us, lifetime_us, leveled = pending.at_us[place], pending.lifetime_us[place], pending.leveled[place]
    count_case(learned.counts, pending.said[place], lifetime_us, evicted)
    end_start(learned.spans, stratum_index(lifetime_us), at_us, leveled, pending.windows[place], evicted)
    pending.lifetime_us[place] = _FREE
