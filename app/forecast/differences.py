"""An alternative world as its difference from the base: the rows that stand elsewhere, the nodes that have other room.

The base is the replayed history itself. A world differs from it by one small virtual instance and by what followed from
it, so a difference is short, and whatever both decide alike leaves it as it is. Where they may decide differently, the
base is changed into the world for a moment, and the engine's own functions decide.

Shapes: W worlds, D differences, N nodes, S rows, R resources, G gaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import NO_NODE, Cluster, Ints, next_fit
from app.engine.compiled import bare, compiled, inlined
from app.forecast.history import VIRTUAL, ShortInts

Records = NDArray[np.void]
NONE = -1
LOST = -2
"""In place of an `older` that has left the world; a new one is looked for when the operation is over."""

NOW = 0
OPERATION_COUNT = 1
WORLD_COUNT = 2
SLOTS = 3
YOUNGEST = 4
YOUNGEST_SPOT = 5
CHECK_US = 6
CHANGED = 7
FORK_COUNT = 8
MOST_WORLDS = 9
COUNTER_COUNT = 10

WORLD = np.dtype(
    [
        (name, np.int64)
        for name in ("born", "older", "first_gap", "last_gap", "newest_us", "moved_count", "room_count", "is_changed")
    ]
)
"""What a world is besides its digest and its differences.

born: the virtual instance's start order; older: the row of the youngest spot instance that is older than it, or NONE;
first_gap, last_gap: ends of the list of members; newest_us: when the newest of them ended; moved_count, room_count: how
many differences there are; is_changed: whether the operation in hand changed it otherwise than the base.
"""


class Run(NamedTuple):
    """One flavor's replay.

    base: the replayed history; slots (N): available slots of the flavor on the base's nodes; worlds (W) of WORLD, the
    first WORLD_COUNT in use; digests (W): a hash of each; moved_row, moved_to (W, D): the rows that are not where the
    base has them, and their nodes or NO_NODE; room_node (W, D), room (W, D, R): the nodes that have more or less room
    than in the base, and by how much; strays (S): in how many worlds the row was moved; gap_slots (G): available slots
    in a gap, 0 where it has no length; gap_fate (G): the operation that evicted its virtual instance, or, as
    `-2 - next`, the next member of its world, or NONE; counters; gone, lost (S): rows that leave the base, and a world.
    """

    base: Cluster
    slots: Ints
    worlds: Records
    digests: Ints
    moved_row: ShortInts
    moved_to: ShortInts
    room_node: ShortInts
    room: Ints
    strays: Ints
    gap_slots: Ints
    gap_fate: ShortInts
    counters: Ints
    gone: Ints
    lost: Ints


@compiled
def enlarged(run: Run, world_count: int, width: int) -> Run:
    """The same, with room for that many worlds and differences of each."""
    count, old = run.moved_row.shape
    worlds, digests = np.empty(world_count, WORLD), np.empty(world_count, np.int64)
    moved_row, moved_to = np.empty((world_count, width), np.int32), np.empty((world_count, width), np.int32)
    room_node, room = (
        np.empty((world_count, width), np.int32),
        np.empty((world_count, width, run.room.shape[2]), np.int64),
    )
    for k in range(count):
        worlds[k] = run.worlds[k]
    digests[:count] = run.digests
    moved_row[:count, :old], moved_to[:count, :old] = run.moved_row, run.moved_to
    room_node[:count, :old], room[:count, :old] = run.room_node, run.room
    return Run(
        run.base,
        run.slots,
        worlds,
        digests,
        moved_row,
        moved_to,
        room_node,
        room,
        run.strays,
        run.gap_slots,
        run.gap_fate,
        run.counters,
        run.gone,
        run.lost,
    )


@inlined
def has_room(run: Run, k: int, row_count: int) -> bool:
    """Whether there is room for so many rows to move in the k-th world; each changes two nodes at most."""
    needed = max(run.worlds[k].moved_count + row_count, run.worlds[k].room_count + 2 * row_count)
    return bool(needed <= run.moved_row.shape[1])


@inlined
def exchange(run: Run, k: int, sign: int) -> None:
    """Make the base into the k-th world (sign 1), or back again (sign -1)."""
    base, world = run.base, run.worlds[k]
    for i in range(world.moved_count):
        row = run.moved_row[k, i]
        run.moved_to[k, i], base.node_of[row] = base.node_of[row], run.moved_to[k, i]
    for i in range(world.room_count):
        for r in range(run.room.shape[2]):
            base.free[run.room_node[k, i], r] += sign * run.room[k, i, r]
    base.born[VIRTUAL] = world.born


@inlined
def first_fit_there(run: Run, k: int, demand: Ints, node: int) -> int:
    """The first node with room for the demand (R) in the k-th world, or NO_NODE; `node` is that of the base.

    Only nodes with other room can be taken in the place of the base's; where that one has too little room in the world,
    the base's next ones follow.
    """
    base, found, is_lost = run.base, NO_NODE, False
    for i in range(run.worlds[k].room_count):
        other = run.room_node[k, i]
        if (found != NO_NODE and other > found) or not base.is_open[other]:
            continue
        if holds(base.free[other], run.room[k, i], demand):
            found = other
        elif other == node:
            is_lost = True
    while is_lost and (found == NO_NODE or node < found):
        node = next_fit(base, demand, node + 1)
        if node == NO_NODE:
            return found
        is_lost = find_room(run, k, node) != NONE
    if node == NO_NODE or (found != NO_NODE and found < node):
        return found
    return node


@inlined
def find_room(run: Run, k: int, node: int) -> int:
    """Where the node stands among those with other room in the k-th world, or NONE."""
    for i in range(run.worlds[k].room_count):
        if run.room_node[k, i] == node:
            return i
    return NONE


@inlined
def holds(free: Ints, more: Ints, demand: Ints) -> bool:
    """Whether a demand (R) fits in what is free and more (R each)."""
    for r in range(demand.shape[0]):
        if demand[r] > free[r] + more[r]:
            return False
    return True


@inlined
def find_moved(run: Run, k: int, row: int) -> int:
    """Where the row stands among the k-th world's moved rows, or NONE."""
    if run.strays[row] > 0:
        for i in range(run.worlds[k].moved_count):
            if run.moved_row[k, i] == row:
                return i
    return NONE


@inlined
def node_in_world(run: Run, k: int, row: int) -> int:
    """The row's node in the k-th world."""
    i = find_moved(run, k, row)
    return int(run.base.node_of[row] if i == NONE else run.moved_to[k, i])


@inlined
def move_in_world(run: Run, k: int, row: int, node: int) -> None:
    """The row goes to a node, or leaves (NO_NODE), in the k-th world."""
    add_room(run, k, node_in_world(run, k, row), row, 1)
    add_room(run, k, node, row, -1)
    note_move(run, k, row, node, run.base.node_of[row])


@inlined
def move_in_base(run: Run, k: int, row: int, node: int) -> None:
    """The row will go to a node, or leave (NO_NODE), in the base; the k-th world stays as it is."""
    add_room(run, k, run.base.node_of[row], row, -1)
    add_room(run, k, node, row, 1)
    note_move(run, k, row, node_in_world(run, k, row), node)


@inlined
def add_room(run: Run, k: int, node: int, row: int, sign: int) -> None:
    """The k-th world has more room (sign 1), or less, on a node than before, by the row's demand."""
    if node == NO_NODE:
        return
    i = find_room(run, k, node)
    if i == NONE:
        i = run.worlds[k].room_count
        run.worlds[k].room_count += 1
        run.room_node[k, i] = node
        for r in range(run.room.shape[2]):
            run.room[k, i, r] = 0
    is_some = False
    for r in range(run.room.shape[2]):
        run.room[k, i, r] += sign * run.base.demand[row, r]
        is_some |= run.room[k, i, r] != 0
    if not is_some:
        run.worlds[k].room_count -= 1
        last = run.worlds[k].room_count
        run.room_node[k, i] = run.room_node[k, last]
        for r in range(run.room.shape[2]):
            run.room[k, i, r] = run.room[k, last, r]


@inlined
def note_move(run: Run, k: int, row: int, node: int, base_node: int) -> None:
    """Keep the row among the k-th world's moved ones if, and only if, its node is not that of the base."""
    i = find_moved(run, k, row)
    if i != NONE:
        run.digests[k] -= key(row, run.moved_to[k, i])
        run.strays[row] -= 1
        run.worlds[k].moved_count -= 1
        last = run.worlds[k].moved_count
        run.moved_row[k, i], run.moved_to[k, i] = run.moved_row[k, last], run.moved_to[k, last]
    if node != base_node:
        run.digests[k] += key(row, node)
        run.strays[row] += 1
        last = run.worlds[k].moved_count
        run.moved_row[k, last], run.moved_to[k, last] = row, node
        run.worlds[k].moved_count += 1


@bare
def equal_worlds(run: Run, k: int, j: int) -> bool:
    """Whether two worlds will share their fate.

    Ages matter only by comparison, so two virtual instances are of equal age where the same instance comes next.
    """
    if run.digests[k] != run.digests[j] or run.worlds[k].older != run.worlds[j].older:
        return False
    if run.worlds[k].moved_count != run.worlds[j].moved_count:
        return False
    for i in range(run.worlds[k].moved_count):
        other = find_moved(run, j, run.moved_row[k, i])
        if other == NONE or run.moved_to[j, other] != run.moved_to[k, i]:
            return False
    return True


@bare
def give_up(run: Run, k: int) -> None:
    """Nothing more is asked of the k-th world; the last one takes its place."""
    for i in range(run.worlds[k].moved_count):
        run.strays[run.moved_row[k, i]] -= 1
    run.counters[WORLD_COUNT] -= 1
    last = run.counters[WORLD_COUNT]
    if k == last:
        return
    run.worlds[k] = run.worlds[last]
    run.digests[k] = run.digests[last]
    for i in range(run.worlds[k].moved_count):
        run.moved_row[k, i], run.moved_to[k, i] = run.moved_row[last, i], run.moved_to[last, i]
    for i in range(run.worlds[k].room_count):
        run.room_node[k, i] = run.room_node[last, i]
        for r in range(run.room.shape[2]):
            run.room[k, i, r] = run.room[last, i, r]


@inlined
def key(row: int, node: int) -> int:
    """A 64-bit hash of a row at a node; digests add up from these."""
    mixed = (row + 1) * 0x1E3779B97F4A7C15 + (node + 3) * 0x3F58476D1CE4E5B9
    mixed ^= mixed >> 29
    mixed *= 0x14D049BB133111EB
    mixed ^= mixed >> 32
    mixed *= 0x3C79AC492BA7B653
    return mixed ^ (mixed >> 29)
