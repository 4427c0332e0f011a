"""Alternative worlds: the recorded history with one virtual spot instance more, for every moment of injection.

The base world is the replayed history itself. Between two operations nothing changes, so an injection depends on its
*gap* only: the stretch of time between them. Every gap in which the flavor fits forks a world off the base, and all
worlds are then led through the same operations by the engine's own functions. Worlds that have become equal share
their fate from then on and are merged: a world stands for all gaps that were merged into it (its members).
A digest finds equal worlds and a comparison of the states confirms them, so the results are exact.

Shapes: W worlds, N nodes, S rows, R resources, G gaps, K operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import (
    NEVER_US,
    NO_NODE,
    Bools,
    Cluster,
    Ints,
    available_slots,
    first_fit,
    place,
    place_on_demand,
    release,
)
from app.engine.compiled import compiled
from app.forecast.history import (
    END,
    NODE_ADDED,
    NODE_OPENED,
    NODE_REMOVED,
    START_ON_DEMAND,
    START_SPOT,
    VIRTUAL,
    Operations,
)

Records = NDArray[np.void]
NONE = -1
BASE = 0
NOW = 0
WORLD_COUNT = 1
GAP_COUNT = 2
YOUNGEST = 3
FORK_COUNT = 4
MOST_WORLDS = 5
COUNTER_COUNT = 6
_OLDER = -2


WORLD = np.dtype(
    [(name, np.int64) for name in ("digest", "change", "born", "older", "first_gap", "last_gap", "newest_us")]
)
"""What a world is besides its state.

digest: a hash of the state; change: what the operation in hand added to it; born: the virtual instance's start order;
older: the row of the youngest spot instance that is older than it, or NONE; first_gap, last_gap: ends of the list of
members; newest_us: when the newest of them ended.
"""

GAP = np.dtype([(name, np.int64) for name in ("start_us", "slots", "evicted_us", "next_gap")])
"""slots: available slots in it; evicted_us: when its virtual instance was, or NEVER_US; next_gap: the next member."""


class Run(NamedTuple):
    """One flavor's replay. The worlds differ in `free` and `node_of` and share the other arrays of a cluster.

    slot (W): a permutation, its first WORLD_COUNT entries are the worlds in use, the base world is slot 0 and stands
    first; worlds (W) of WORLD; free (W, N, R), node_of (W, S), is_open (N), demand (S, R), born (S), deadline_us (S),
    is_spot (S): as in Cluster; gaps (G) of GAP; counters; gone (S): room for released rows.
    """

    slot: Ints
    worlds: Records
    free: Ints
    node_of: Ints
    is_open: Bools
    demand: Ints
    born: Ints
    deadline_us: Ints
    is_spot: Bools
    gaps: Records
    counters: Ints
    gone: Ints


@compiled
def advance(run: Run, operations: Operations, policy: int, horizon_us: int) -> int:
    """Lead all worlds through the operations; stops before the one that finds no room for another world.

    Returns how many were done. Room for K more gaps is the caller's duty.
    """
    done = 0
    for index in range(operations.at_us.shape[0]):
        if run.counters[WORLD_COUNT] == run.slot.shape[0]:
            break
        close_gap(run, operations.at_us[index], horizon_us)
        enter(run, operations, index)
        step_all(run, operations.kind[index], operations.target[index], operations.at_us[index], policy)
        merge_all(run)
        done += 1
    return done


@compiled
def close_gap(run: Run, at_us: int, horizon_us: int) -> None:
    """Record the gap that ends now and fork a world for it; worlds past the horizon are given up."""
    counters = run.counters
    if at_us == counters[NOW]:
        return
    gap = counters[GAP_COUNT]
    counters[GAP_COUNT] += 1
    run.gaps[gap].start_us = counters[NOW]
    run.gaps[gap].slots = available_slots(view(run, BASE), run.demand[VIRTUAL])
    run.gaps[gap].evicted_us = NEVER_US
    run.gaps[gap].next_gap = NONE
    if run.gaps[gap].slots > 0:
        fork(run, gap, at_us)
    for k in range(counters[WORLD_COUNT] - 1, 0, -1):
        if run.worlds[run.slot[k]].newest_us + horizon_us < at_us:
            give_up(run, k)
    counters[NOW] = at_us


@compiled
def fork(run: Run, gap: int, end_us: int) -> None:
    """A world like the base one, with a virtual instance that is younger than all."""
    counters = run.counters
    k = counters[WORLD_COUNT]
    counters[WORLD_COUNT] += 1
    counters[FORK_COUNT] += 1
    slot = run.slot[k]
    run.free[slot] = run.free[BASE]
    run.node_of[slot] = run.node_of[BASE]
    world = run.worlds[slot]
    world.born = counters[YOUNGEST] + 1
    world.first_gap = gap
    world.last_gap = gap
    world.newest_us = end_us
    cluster = view(run, slot)
    place(cluster, VIRTUAL, first_fit(cluster, run.demand[VIRTUAL]))
    world.older = next_older(cluster)
    world.digest = run.worlds[BASE].digest + key(VIRTUAL, cluster.node_of[VIRTUAL]) + key(world.older, _OLDER)
    merge_equal(run, k)


@compiled
def view(run: Run, slot: int) -> Cluster:
    """A world as the engine sees a cluster. Valid until the next view: the worlds share the rows' arrays."""
    run.born[VIRTUAL] = run.worlds[slot].born
    return Cluster(run.free[slot], run.is_open, run.node_of[slot], run.demand, run.born, run.deadline_us, run.is_spot)


@compiled
def enter(run: Run, operations: Operations, index: int) -> None:
    """What an operation means to all worlds alike: a starting instance's row, a node's room and whether it is open."""
    kind, target = operations.kind[index], operations.target[index]
    if kind <= START_SPOT:
        run.demand[target] = operations.demand[index]
        run.born[target] = operations.born[index]
        run.deadline_us[target] = operations.deadline_us[index]
        run.is_spot[target] = kind == START_SPOT
        run.counters[YOUNGEST] = operations.born[index]
    elif kind != END:
        run.is_open[target] = kind in (NODE_ADDED, NODE_OPENED)
    if kind == NODE_ADDED:
        run.free[:, target] = operations.demand[index]


@compiled
def step_all(run: Run, kind: int, target: int, now_us: int, policy: int) -> None:
    """Lead every world through one operation, the base world last."""
    for k in range(run.counters[WORLD_COUNT] - 1, -1, -1):
        world = run.worlds[run.slot[k]]
        cluster = view(run, run.slot[k])
        change, count = step(cluster, kind, target, now_us, policy, run.gone)
        world.change = change
        world.digest += change
        if count > 0:
            mourn(run, k, count, now_us)


@compiled
def step(cluster: Cluster, kind: int, target: int, now_us: int, policy: int, gone: Ints) -> tuple[int, int]:
    """Lead one world through one operation.

    Returns what it adds to the digest, and how many rows left their nodes (`gone`).
    """
    if kind <= START_SPOT:
        return start(cluster, target, now_us, kind, policy, gone)
    if kind == END and cluster.node_of[target] != NO_NODE:
        gone[0] = target
        return take_away(cluster, gone, 1), 1
    if kind == NODE_REMOVED:
        count = spot_rows_on(cluster, target, gone)
        return take_away(cluster, gone, count), count
    return 0, 0


@compiled
def start(cluster: Cluster, row: int, now_us: int, kind: int, policy: int, gone: Ints) -> tuple[int, int]:
    """Place a start, clearing its node of victims; a start that cannot be placed is left out. As `step`."""
    node, count = first_fit(cluster, cluster.demand[row]), 0
    if node == NO_NODE and kind == START_ON_DEMAND:
        node, count = place_on_demand(cluster, cluster.demand[row], now_us, policy, gone)
    if node == NO_NODE:
        return 0, 0
    change = take_away(cluster, gone, count) + key(row, node)
    place(cluster, row, node)
    return change, count


@compiled
def take_away(cluster: Cluster, gone: Ints, count: int) -> int:
    """Release the first `count` rows of `gone`; returns what that adds to the digest."""
    change = 0
    for i in range(count):
        change -= key(gone[i], cluster.node_of[gone[i]])
        release(cluster, gone[i])
    return change


@compiled
def spot_rows_on(cluster: Cluster, node: int, rows: Ints) -> int:
    """Fill `rows` with the spot instances on a node; returns how many."""
    count = 0
    for row in range(cluster.node_of.shape[0]):
        if cluster.node_of[row] == node and cluster.is_spot[row]:
            rows[count] = row
            count += 1
    return count


@compiled
def mourn(run: Run, k: int, count: int, now_us: int) -> None:
    """Note what it means to the k-th world that rows have left it."""
    world = run.worlds[run.slot[k]]
    for i in range(count):
        if run.gone[i] == VIRTUAL:
            evict_virtual(run, k, now_us)
            return
    for i in range(count):
        if run.gone[i] == world.older:
            older = next_older(view(run, run.slot[k]))
            change = key(older, _OLDER) - key(world.older, _OLDER)
            world.older = older
            world.change += change
            world.digest += change


@compiled
def next_older(cluster: Cluster) -> int:
    """The row of the youngest running spot instance that is older than the virtual one, or NONE."""
    found = NONE
    for row in range(cluster.node_of.shape[0]):
        if cluster.node_of[row] == NO_NODE or not cluster.is_spot[row] or cluster.born[row] >= cluster.born[VIRTUAL]:
            continue
        if found == NONE or cluster.born[row] > cluster.born[found]:
            found = row
    return found


@compiled
def merge_all(run: Run) -> None:
    """Merge what has become equal: only worlds that did not change as the base world did can have."""
    for k in range(run.counters[WORLD_COUNT] - 1, 0, -1):
        if run.worlds[run.slot[k]].change != run.worlds[BASE].change:
            merge_equal(run, k)


@compiled
def merge_equal(run: Run, k: int) -> None:
    """Merge the k-th world into another one that equals it, if there is one.

    Ages matter only by comparison, so two virtual instances are of equal age where the same instance comes next.
    """
    world = run.worlds[run.slot[k]]
    for j in range(1, run.counters[WORLD_COUNT]):
        into = run.worlds[run.slot[j]]
        if j == k or into.digest != world.digest or into.older != world.older:
            continue
        if np.array_equal(run.node_of[run.slot[j]], run.node_of[run.slot[k]]):
            run.gaps[into.last_gap].next_gap = world.first_gap
            into.last_gap = world.last_gap
            into.newest_us = max(into.newest_us, world.newest_us)
            give_up(run, k)
            return


@compiled
def evict_virtual(run: Run, k: int, at_us: int) -> None:
    """The virtual instance is evicted: so is that of every member, and nothing more is asked of this world."""
    gap = run.worlds[run.slot[k]].first_gap
    while gap != NONE:
        run.gaps[gap].evicted_us = at_us
        gap = run.gaps[gap].next_gap
    give_up(run, k)


@compiled
def give_up(run: Run, k: int) -> None:
    """Free the k-th world's slot."""
    last = run.counters[WORLD_COUNT] - 1
    slot = run.slot
    slot[k], slot[last] = slot[last], slot[k]
    run.counters[WORLD_COUNT] = last
    run.counters[MOST_WORLDS] = max(run.counters[MOST_WORLDS], last + 1)


@compiled
def key(row: int, place_: int) -> int:
    """A 64-bit hash of a row at a place; differences of worlds add up from these."""
    mixed = (row + 1) * 0x1E3779B97F4A7C15 + (place_ + 3) * 0x3F58476D1CE4E5B9
    mixed ^= mixed >> 29
    mixed *= 0x14D049BB133111EB
    mixed ^= mixed >> 32
    mixed *= 0x3C79AC492BA7B653
    return mixed ^ (mixed >> 29)
