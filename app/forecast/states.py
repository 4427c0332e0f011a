"""The states that a replay leads side by side: the replayed history (the base, state 0) and alternative worlds.

Every state has its own placements and free room. Facts about instances and nodes from the log (demand, age, open or
not) are equal in all states and stored once. Both together form a `Cluster` for the engine's functions.

Shapes: W states, N nodes, B blocks of nodes, S rows, R resources, F forks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import (
    BEST_FIT,
    GOES_FIRST_US,
    NEVER_US,
    NO_NODE,
    Bools,
    Cluster,
    Ints,
    best_fit_among,
    first_fit_among,
    fits,
    is_tighter,
    slots_on,
)
from app.engine.compiled import bare, inlined, inner
from app.forecast.operations import VIRTUAL, ShortInts

Records = NDArray[np.void]
NONE = -1
BLOCK = 32
"""The number of nodes in a block."""

NOW = 0
OPERATION_COUNT = 1
STATE_COUNT = 2
SLOTS = 3
YOUNGEST = 4
CHECK_US = 5
MERGE_AT = 6
FORK_COUNT = 7
MOST_STATES = 8
SPOT_COUNT = 9
YOUTH_COUNT = 10
OVERRUNNING = 11
SEAT = 12
PLACEMENT = 13
"""No counter, but how starts are placed: it stands here so that it reaches every function."""
GOING_FIRST = 14
COUNTER_COUNT = 15

STATE = np.dtype([(name, np.int64) for name in ("digest", "born", "first_fork", "last_fork", "newest_us")])
"""The properties of a state besides its placements.

digest: a hash of the placements. Of worlds also: born: the virtual instance's start order; first_fork, last_fork: ends
of the list of members; newest_us: when the newest member was forked.
"""


class Worlds(NamedTuple):
    """The replay of one flavor.

    is_open (N), demand (S, R), born, deadline_us, is_spot (S): as in `Cluster`, shared by all states; states (W) of
    STATE, the first STATE_COUNT in use; node_of (W, S); free (W, N, R); peaks (W, B, R): an upper bound of the room
    free on each of a block's nodes; slots (N): available slots of the flavor on the base's nodes; spot (S): rows of the
    unfinished spot requests by start order, the first SPOT_COUNT; youth (S): the same, youngest first as of now, with
    the virtual instance at SEAT: the first GOING_FIRST go first, those from there to OVERRUNNING overrun; gone (S):
    rows that leave a state; fork_gap, fork_slots, fork_fate (F): the gap of each fork, its available slots, and the
    operation that evicted its virtual instance, or, as `-2 - next`, the next member of its world, or NONE; counters.
    """

    is_open: Bools
    demand: Ints
    born: Ints
    deadline_us: Ints
    is_spot: Bools
    states: Records
    node_of: ShortInts
    free: Ints
    peaks: Ints
    slots: Ints
    spot: Ints
    youth: Ints
    gone: Ints
    fork_gap: ShortInts
    fork_slots: Ints
    fork_fate: ShortInts
    counters: Ints


@inlined
def cluster_of(run: Worlds, k: int) -> Cluster:
    """Return the k-th state as a cluster."""
    return Cluster(run.free[k], run.is_open, run.node_of[k], run.demand, run.born, run.deadline_us, run.is_spot)


@inner
def enlarged(run: Worlds) -> Worlds:
    """Return the same run with room for half as many states more."""
    count = run.states.shape[0]
    more = count + count // 2
    states = np.empty(more, run.states.dtype)
    node_of = np.empty((more, run.node_of.shape[1]), run.node_of.dtype)
    free = np.empty((more, run.free.shape[1], run.free.shape[2]), run.free.dtype)
    peaks = np.empty((more, run.peaks.shape[1], run.peaks.shape[2]), run.peaks.dtype)
    states[:count] = run.states
    node_of[:count] = run.node_of
    free[:count] = run.free
    peaks[:count] = run.peaks
    return Worlds(
        run.is_open,
        run.demand,
        run.born,
        run.deadline_us,
        run.is_spot,
        states,
        node_of,
        free,
        peaks,
        run.slots,
        run.spot,
        run.youth,
        run.gone,
        run.fork_gap,
        run.fork_slots,
        run.fork_fate,
        run.counters,
    )


@bare
def copy_state(run: Worlds, k: int, into: int) -> None:
    """Make one state equal another."""
    run.states[into] = run.states[k]
    for row in range(run.node_of.shape[1]):
        run.node_of[into, row] = run.node_of[k, row]
    for node in range(run.free.shape[1]):
        for r in range(run.free.shape[2]):
            run.free[into, node, r] = run.free[k, node, r]
    for block in range(run.peaks.shape[1]):
        for r in range(run.peaks.shape[2]):
            run.peaks[into, block, r] = run.peaks[k, block, r]


@inlined
def put(run: Worlds, k: int, row: int, node: int) -> None:
    """Place a row's instance on a node of the k-th state."""
    run.node_of[k, row] = node
    run.states[k].digest += key(row, node)
    for r in range(run.free.shape[2]):
        run.free[k, node, r] -= run.demand[row, r]
    if k == 0:
        count_slots(run, node)


@inlined
def take(run: Worlds, k: int, row: int) -> None:
    """Take a row's instance off its node in the k-th state."""
    node = run.node_of[k, row]
    run.node_of[k, row] = NO_NODE
    run.states[k].digest -= key(row, node)
    for r in range(run.free.shape[2]):
        run.free[k, node, r] += run.demand[row, r]
    raise_peak(run, k, node)
    if k == 0:
        count_slots(run, node)


@inlined
def raise_peak(run: Worlds, k: int, node: int) -> None:
    """Raise the peak of a node's block to at least the node's free room."""
    for r in range(run.free.shape[2]):
        run.peaks[k, node // BLOCK, r] = max(run.peaks[k, node // BLOCK, r], run.free[k, node, r])


@inlined
def count_slots(run: Worlds, node: int) -> None:
    """Count the flavor's available slots on a node of the base that has changed."""
    slots = slots_on(cluster_of(run, 0), run.demand[VIRTUAL], node)
    run.counters[SLOTS] += slots - run.slots[node]
    run.slots[node] = slots


@inlined
def first_fit_there(run: Worlds, k: int, demand: Ints) -> int:
    """Return the first open node with room for the demand (R) in the k-th state, or NO_NODE."""
    for block in range(run.peaks.shape[1]):
        if fits(run.peaks[k, block], demand):
            begin = block * BLOCK
            node = first_fit_among(cluster_of(run, k), demand, begin, min(begin + BLOCK, run.free.shape[1]))
            if node != NO_NODE:
                return node
            lower_peak(run, k, block)
    return NO_NODE


@inlined
def best_fit_there(run: Worlds, k: int, demand: Ints) -> int:
    """Return the tightest open node with room for the demand (R) in the k-th state, or NO_NODE."""
    found = NO_NODE
    for block in range(run.peaks.shape[1]):
        if fits(run.peaks[k, block], demand):
            begin = block * BLOCK
            node = best_fit_among(cluster_of(run, k), demand, begin, min(begin + BLOCK, run.free.shape[1]))
            if node == NO_NODE:
                lower_peak(run, k, block)
            elif found == NO_NODE or is_tighter(run.free[k, node], run.free[k, found], demand):
                found = node
    return found


@bare
def fitting_node_there(run: Worlds, k: int, demand: Ints) -> int:
    """Return the node with room that a demand (R) takes in the k-th state, or NO_NODE."""
    if run.counters[PLACEMENT] == BEST_FIT:
        return best_fit_there(run, k, demand)
    return first_fit_there(run, k, demand)


@bare
def lower_peak(run: Worlds, k: int, block: int) -> None:
    """Set the block's peak to its exact value."""
    begin = block * BLOCK
    for r in range(run.free.shape[2]):
        most = run.free[k, begin, r]
        for node in range(begin + 1, min(begin + BLOCK, run.free.shape[1])):
            most = max(most, run.free[k, node, r])
        run.peaks[k, block, r] = most


@bare
def enter_spot(run: Worlds, row: int) -> None:
    """Add a new spot request, the youngest of all."""
    run.spot[run.counters[SPOT_COUNT]] = row
    run.counters[SPOT_COUNT] += 1


@bare
def leave_spot(run: Worlds, row: int) -> None:
    """Remove a spot request that has ended."""
    at, count = seat_by_age(run, run.born[row]), run.counters[SPOT_COUNT]
    while at < count and run.spot[at] != row and run.born[run.spot[at]] == run.born[row]:
        at += 1
    if at < count and run.spot[at] == row:
        for i in range(at, count - 1):
            run.spot[i] = run.spot[i + 1]
        run.counters[SPOT_COUNT] -= 1


@bare
def seat_by_age(run: Worlds, born: int) -> int:
    """Return the number of older spot requests."""
    low, high = 0, run.counters[SPOT_COUNT]
    while low < high:
        middle = (low + high) // 2
        if run.born[run.spot[middle]] < born:
            low = middle + 1
        else:
            high = middle
    return low


@bare
def next_older(run: Worlds, k: int) -> int:
    """Return the row of the youngest spot instance in the k-th state older than its virtual one, or NONE."""
    for i in range(seat_by_age(run, run.states[k].born) - 1, -1, -1):
        if run.node_of[k, run.spot[i]] != NO_NODE:
            return int(run.spot[i])
    return NONE


@bare
def sort_by_youth(run: Worlds, now_us: int) -> None:
    """Fill `youth`. What goes first counts as younger than all others, and overrunning instances than the rest.

    The virtual instance does neither.
    """
    count = 0
    for i in range(run.counters[SPOT_COUNT] - 1, -1, -1):
        if run.deadline_us[run.spot[i]] == GOES_FIRST_US:
            run.youth[count] = run.spot[i]
            count += 1
    run.counters[GOING_FIRST] = count
    for i in range(run.counters[SPOT_COUNT] - 1, -1, -1):
        if now_us > run.deadline_us[run.spot[i]] != GOES_FIRST_US:
            run.youth[count] = run.spot[i]
            count += 1
    run.counters[OVERRUNNING] = run.counters[SEAT] = count
    run.youth[count] = VIRTUAL
    count += 1
    for i in range(run.counters[SPOT_COUNT] - 1, -1, -1):
        if now_us <= run.deadline_us[run.spot[i]]:
            run.youth[count] = run.spot[i]
            count += 1
    run.counters[YOUTH_COUNT] = count


@bare
def seat_virtual(run: Worlds, born: int) -> None:
    """Move the virtual instance to the place in `youth` that belongs to this start order."""
    at, youth = run.counters[SEAT], run.youth
    while at + 1 < run.counters[YOUTH_COUNT] and run.born[youth[at + 1]] > born:
        youth[at] = youth[at + 1]
        at += 1
    while at > run.counters[OVERRUNNING] and run.born[youth[at - 1]] < born:
        youth[at] = youth[at - 1]
        at -= 1
    youth[at] = VIRTUAL
    run.counters[SEAT] = at


@inlined
def key(row: int, node: int) -> int:
    """Return a 64-bit hash of a row at a node; a digest is the sum of these."""
    mixed = (row + 1) * 0x1E3779B97F4A7C15 + (node + 3) * 0x3F58476D1CE4E5B9
    mixed ^= mixed >> 29
    mixed *= 0x14D049BB133111EB
    mixed ^= mixed >> 32
    mixed *= 0x3C79AC492BA7B653
    return mixed ^ (mixed >> 29)


def world_bytes(node_count: int, row_count: int, resource_count: int) -> int:
    """Return the memory of a world in bytes."""
    return STATE.itemsize + 4 * row_count + 8 * resource_count * (node_count + -(-node_count // BLOCK))


def first_run(opening: Cluster, start_us: int, placement: int) -> Worlds:
    """Return the base alone, with room for the first worlds. The opening's row VIRTUAL is free."""
    node_count, resource_count = opening.free.shape
    first, row_count, block_count = 16, len(opening.node_of), -(-node_count // BLOCK)
    counters = np.zeros(COUNTER_COUNT, np.int64)
    counters[NOW], counters[YOUNGEST], counters[STATE_COUNT] = start_us, opening.born.max(), 1
    counters[MERGE_AT], counters[PLACEMENT] = first, placement
    spot = np.flatnonzero(opening.is_spot & (opening.node_of != NO_NODE))
    counters[SPOT_COUNT] = len(spot)
    run = Worlds(
        is_open=opening.is_open,
        demand=opening.demand.copy(order="C"),
        born=opening.born,
        deadline_us=opening.deadline_us,
        is_spot=opening.is_spot,
        states=np.zeros(first, STATE),
        node_of=np.full((first, row_count), NO_NODE, np.int32),
        free=np.zeros((first, node_count, resource_count), np.int64),
        peaks=np.full((first, block_count, resource_count), NEVER_US),
        slots=np.array([slots_on(opening, opening.demand[VIRTUAL], node) for node in range(node_count)], np.int64),
        spot=np.zeros(row_count, np.int64),
        youth=np.zeros(row_count, np.int64),
        gone=np.zeros(row_count, np.int64),
        fork_gap=np.zeros(0, np.int32),
        fork_slots=np.zeros(0, np.int64),
        fork_fate=np.zeros(0, np.int32),
        counters=counters,
    )
    run.spot[: len(spot)] = spot[np.argsort(opening.born[spot])]
    run.node_of[0], run.free[0] = opening.node_of, opening.free
    counters[SLOTS] = run.slots.sum()
    return run


def with_room(run: Worlds, node_count: int, row_count: int, fork_count: int, state_count: int = 0) -> Worlds:
    """Return the run with room for so many nodes, rows, forks and states at least."""
    run = run._replace(
        states=_padded(run.states, state_count),
        node_of=_padded(run.node_of, state_count),
        free=_padded(run.free, state_count),
        peaks=_padded(run.peaks, state_count),
    )
    return run._replace(
        is_open=_padded(run.is_open, node_count),
        demand=_padded(run.demand, row_count),
        born=_padded(run.born, row_count),
        deadline_us=_padded(run.deadline_us, row_count),
        is_spot=_padded(run.is_spot, row_count),
        node_of=_padded(run.node_of, row_count, 1, NO_NODE),
        free=_padded(run.free, node_count, 1),
        peaks=_padded(run.peaks, -(-node_count // BLOCK), 1),
        slots=_padded(run.slots, node_count),
        spot=_padded(run.spot, row_count),
        youth=_padded(run.youth, row_count),
        gone=_padded(run.gone, row_count),
        fork_gap=_padded(run.fork_gap, fork_count),
        fork_slots=_padded(run.fork_slots, fork_count),
        fork_fate=_padded(run.fork_fate, fork_count),
    )


def _padded(array: np.ndarray, size: int, axis: int = 0, fill: int = 0) -> np.ndarray:
    """Return the array, or a longer copy along an axis if it is too short."""
    if size <= array.shape[axis]:
        return array
    shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
    longer = np.full(shape, fill, array.dtype)
    longer[tuple(slice(count) for count in array.shape)] = array
    return longer
