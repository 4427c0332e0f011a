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

NONE = -1
NOW = 0
WORLD_COUNT = 1
GAP_COUNT = 2
YOUNGEST = 3
FORK_COUNT = 4
MOST_WORLDS = 5
WORLD_STEPS = 6
COUNTER_COUNT = 7
_OLDER = -2


class Worlds(NamedTuple):
    """The alternatives to the base world. `slot` (W) is a permutation; its first WORLD_COUNT entries are in use.

    free (W, N, R) and node_of (W, S) as in Cluster; digest (W): a hash of how the world differs from the base world;
    born (W): the virtual instance's start order; older (W): the row of the youngest spot instance that is older than
    it, or NONE; first_gap, last_gap (W): ends of the list of members; newest_us (W): when the newest of them ended;
    is_changed (W): whether the operation in hand changed how the world differs.
    """

    slot: Ints
    free: Ints
    node_of: Ints
    digest: Ints
    born: Ints
    older: Ints
    first_gap: Ints
    last_gap: Ints
    newest_us: Ints
    is_changed: Bools


class Gaps(NamedTuple):
    """start_us; slots: available slots in it; evicted_us: when its virtual instance was, or NEVER_US; next_gap (G)."""

    start_us: Ints
    slots: Ints
    evicted_us: Ints
    next_gap: Ints


class Run(NamedTuple):
    """One flavor's replay. The base world's row arrays serve all worlds; `gone` (S) is room for released rows."""

    base: Cluster
    worlds: Worlds
    gaps: Gaps
    counters: Ints
    gone: Ints


@compiled
def advance(run: Run, operations: Operations, policy: int, horizon_us: int) -> int:
    """Lead all worlds through the operations; stops before the one that finds no room for another world.

    Returns how many were done. Room for K more gaps is the caller's duty.
    """
    done = 0
    for index in range(operations.at_us.shape[0]):
        if run.counters[WORLD_COUNT] == run.worlds.slot.shape[0]:
            break
        close_gap(run, operations.at_us[index], horizon_us)
        enter_start(run, operations, index)
        change, _ = step(run.base, operations, index, policy, run.gone)
        for k in range(run.counters[WORLD_COUNT] - 1, -1, -1):
            step_world(run, k, operations, index, policy, change)
        for k in range(run.counters[WORLD_COUNT] - 1, -1, -1):
            if run.worlds.is_changed[run.worlds.slot[k]]:
                merge_equal(run, k)
        done += 1
    return done


@compiled
def close_gap(run: Run, at_us: int, horizon_us: int) -> None:
    """Record the gap that ends now and fork a world for it; worlds past the horizon are given up."""
    counters, gaps = run.counters, run.gaps
    if at_us == counters[NOW]:
        return
    gap = counters[GAP_COUNT]
    gaps.start_us[gap] = counters[NOW]
    gaps.slots[gap] = available_slots(run.base, run.base.demand[VIRTUAL])
    gaps.evicted_us[gap] = NEVER_US
    gaps.next_gap[gap] = NONE
    counters[GAP_COUNT] += 1
    if gaps.slots[gap] > 0:
        fork(run, gap, at_us)
    for k in range(counters[WORLD_COUNT] - 1, -1, -1):
        if run.worlds.newest_us[run.worlds.slot[k]] + horizon_us < at_us:
            give_up(run, k)
    counters[NOW] = at_us


@compiled
def fork(run: Run, gap: int, end_us: int) -> None:
    """A world like the base one, with a virtual instance that is younger than all."""
    counters, worlds, base = run.counters, run.worlds, run.base
    k = counters[WORLD_COUNT]
    counters[WORLD_COUNT] += 1
    counters[FORK_COUNT] += 1
    world = worlds.slot[k]
    worlds.free[world] = base.free
    worlds.node_of[world] = base.node_of
    worlds.born[world] = counters[YOUNGEST] + 1
    worlds.first_gap[world] = gap
    worlds.last_gap[world] = gap
    worlds.newest_us[world] = end_us
    cluster = view(run, world)
    place(cluster, VIRTUAL, first_fit(cluster, base.demand[VIRTUAL]))
    worlds.older[world] = next_older(cluster)
    worlds.digest[world] = key(VIRTUAL, cluster.node_of[VIRTUAL]) + key(worlds.older[world], _OLDER)
    merge_equal(run, k)


@compiled
def view(run: Run, world: int) -> Cluster:
    """The world as the engine sees a cluster. Valid until the next view: the worlds share the rows' arrays."""
    base, worlds = run.base, run.worlds
    base.born[VIRTUAL] = worlds.born[world]
    return Cluster(
        worlds.free[world],
        base.is_open,
        worlds.node_of[world],
        base.demand,
        base.born,
        base.deadline_us,
        base.is_spot,
    )


@compiled
def enter_start(run: Run, operations: Operations, index: int) -> None:
    """Describe a starting instance in its row, for all worlds."""
    kind = operations.kind[index]
    if kind > START_SPOT:
        return
    row, base = operations.target[index], run.base
    base.demand[row] = operations.demand[index]
    base.born[row] = operations.born[index]
    base.deadline_us[row] = operations.deadline_us[index]
    base.is_spot[row] = kind == START_SPOT
    run.counters[YOUNGEST] = operations.born[index]


@compiled
def step(cluster: Cluster, operations: Operations, index: int, policy: int, gone: Ints) -> tuple[int, int]:
    """Lead one world through one operation.

    Returns a hash of what changed, and how many rows left their nodes (`gone`).
    """
    kind, target = operations.kind[index], operations.target[index]
    if kind <= START_SPOT:
        return start(cluster, target, operations.at_us[index], kind, policy, gone)
    if kind == END:
        gone[0] = target
        return take_away(cluster, gone, 1 if cluster.node_of[target] != NO_NODE else 0)
    cluster.is_open[target] = kind in (NODE_ADDED, NODE_OPENED)
    if kind == NODE_ADDED:
        cluster.free[target] = operations.demand[index]
    if kind == NODE_REMOVED:
        return take_away(cluster, gone, spot_rows_on(cluster, target, gone))
    return 0, 0


@compiled
def start(cluster: Cluster, row: int, now_us: int, kind: int, policy: int, gone: Ints) -> tuple[int, int]:
    """Place a start, clearing its node of victims; a start that cannot be placed is left out. As `step`."""
    if kind == START_ON_DEMAND:
        node, count = place_on_demand(cluster, cluster.demand[row], now_us, policy, gone)
    else:
        node, count = first_fit(cluster, cluster.demand[row]), 0
    if node == NO_NODE:
        return 0, 0
    change, _ = take_away(cluster, gone, count)
    place(cluster, row, node)
    return change + key(row, node), count


@compiled
def take_away(cluster: Cluster, gone: Ints, count: int) -> tuple[int, int]:
    """Release the first `count` rows of `gone`. As `step`."""
    change = 0
    for i in range(count):
        change -= key(gone[i], cluster.node_of[gone[i]])
        release(cluster, gone[i])
    return change, count


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
def step_world(run: Run, k: int, operations: Operations, index: int, policy: int, base_change: int) -> None:
    """Lead the k-th world through one operation and note how it now differs from the base world."""
    worlds = run.worlds
    world = worlds.slot[k]
    cluster = view(run, world)
    change, count = step(cluster, operations, index, policy, run.gone)
    worlds.is_changed[world] = change != base_change
    worlds.digest[world] += change - base_change
    for i in range(count):
        if run.gone[i] == VIRTUAL:
            evict_virtual(run, k, operations.at_us[index])
            return
    for i in range(count):
        if run.gone[i] == worlds.older[world]:
            worlds.digest[world] -= key(worlds.older[world], _OLDER)
            worlds.older[world] = next_older(cluster)
            worlds.digest[world] += key(worlds.older[world], _OLDER)
            worlds.is_changed[world] = True
    run.counters[WORLD_STEPS] += 1


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
def merge_equal(run: Run, k: int) -> None:
    """Merge the k-th world into another one that equals it, if there is one.

    Ages matter only by comparison, so two virtual instances are of equal age where the same instance comes next.
    """
    worlds = run.worlds
    world = worlds.slot[k]
    for j in range(run.counters[WORLD_COUNT]):
        other = worlds.slot[j]
        if j == k or worlds.digest[other] != worlds.digest[world] or worlds.older[other] != worlds.older[world]:
            continue
        if np.array_equal(worlds.node_of[other], worlds.node_of[world]):
            run.gaps.next_gap[worlds.last_gap[other]] = worlds.first_gap[world]
            worlds.last_gap[other] = worlds.last_gap[world]
            worlds.newest_us[other] = max(worlds.newest_us[other], worlds.newest_us[world])
            give_up(run, k)
            return


@compiled
def evict_virtual(run: Run, k: int, at_us: int) -> None:
    """The virtual instance is evicted: so is that of every member, and nothing more is asked of this world."""
    gap = run.worlds.first_gap[run.worlds.slot[k]]
    while gap != NONE:
        run.gaps.evicted_us[gap] = at_us
        gap = run.gaps.next_gap[gap]
    give_up(run, k)


@compiled
def give_up(run: Run, k: int) -> None:
    """Free the k-th world's slot."""
    last = run.counters[WORLD_COUNT] - 1
    slot = run.worlds.slot
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
