"""Alternative worlds: the recorded history with one virtual spot instance more, for every moment of injection.

The base is the replayed history itself. Between two operations nothing changes, so an injection depends on its *gap*
only: the stretch of time between them. Every gap in which the flavor fits forks a world off the base, and all are then
led through the same operations, each as its difference from the base (`differences`). Worlds that have become
equal share their fate from then on and are merged: a world stands for all gaps that were merged into it (its members).
A digest finds equal worlds and a comparison of the differences confirms them, so the results are exact.

Shapes: W worlds, N nodes, S rows, R resources, G gaps, K operations. Gap g follows the first g operations.
"""

from __future__ import annotations

from app.engine.cluster import NEVER_US, NO_NODE, Cluster, Ints, first_fit, place, place_on_demand, release, slots_on
from app.engine.compiled import bare, compiled, inlined
from app.forecast.differences import (
    CHANGED,
    CHECK_US,
    FORK_COUNT,
    LOST,
    MOST_WORLDS,
    NONE,
    NOW,
    OPERATION_COUNT,
    SLOTS,
    WORLD_COUNT,
    YOUNGEST,
    YOUNGEST_SPOT,
    Run,
    enlarged,
    equal_worlds,
    exchange,
    find_moved,
    first_fit_there,
    give_up,
    has_room,
    key,
    move_in_base,
    move_in_world,
    node_in_world,
)
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

_OLDER = -2


@compiled
def advance(run: Run, operations: Operations, policy: int, horizon_us: int) -> Run:
    """Lead the base and all worlds through the operations. Room for K more gaps is the caller's duty."""
    for index in range(operations.at_us.shape[0]):
        kind, target, now_us = operations.kind[index], operations.target[index], operations.at_us[index]
        run = close_gap(run, now_us, horizon_us)
        enter(run, operations, index)
        node, count = plan(run.base, kind, target, now_us, policy, run.gone)
        left = run.counters[WORLD_COUNT]
        while left > 0:
            left = follow_down(run, left, kind, target, now_us, policy, node, count)
            if left > 0:
                run = enlarged(run, run.worlds.shape[0], 2 * run.moved_row.shape[1])
        enact(run, target, node, count)
        settle(run)
        run.counters[OPERATION_COUNT] += 1
    return run


@compiled
def close_gap(run: Run, at_us: int, horizon_us: int) -> Run:
    """Record the gap that ends now and fork a world for it; worlds past the horizon are given up."""
    counters = run.counters
    gap = counters[OPERATION_COUNT]
    run.gap_slots[gap], run.gap_fate[gap] = 0, NONE
    if at_us == counters[NOW]:
        return run
    counters[NOW] = at_us
    run.gap_slots[gap] = counters[SLOTS]
    if counters[SLOTS] > 0:
        run = fork(run, gap, at_us)
    if counters[CHECK_US] < at_us:
        give_up_outdated(run, at_us, horizon_us)
    return run


@bare
def give_up_outdated(run: Run, at_us: int, horizon_us: int) -> None:
    """Give up the worlds past the horizon, and note when to look again."""
    oldest_us = at_us
    for k in range(run.counters[WORLD_COUNT] - 1, -1, -1):
        if run.worlds[k].newest_us + horizon_us < at_us:
            give_up(run, k)
        else:
            oldest_us = min(oldest_us, run.worlds[k].newest_us)
    run.counters[CHECK_US] = oldest_us + horizon_us


@compiled
def fork(run: Run, gap: int, end_us: int) -> Run:
    """A world like the base, with a virtual instance that is younger than all."""
    counters = run.counters
    k = counters[WORLD_COUNT]
    if k == run.worlds.shape[0]:
        run = enlarged(run, 2 * k, run.moved_row.shape[1])
    counters[WORLD_COUNT] += 1
    counters[FORK_COUNT] += 1
    counters[MOST_WORLDS] = max(counters[MOST_WORLDS], k + 1)
    world = run.worlds[k]
    world.born = counters[YOUNGEST] + 1
    world.older = counters[YOUNGEST_SPOT]
    world.first_gap = gap
    world.last_gap = gap
    world.newest_us = end_us
    world.moved_count = 0
    world.room_count = 0
    world.is_changed = 0
    run.digests[k] = key(world.older, _OLDER)
    node = 0
    while run.slots[node] == 0:
        node += 1
    move_in_world(run, k, VIRTUAL, node)
    merge(run, k)
    return run


@compiled
def enter(run: Run, operations: Operations, index: int) -> None:
    """What an operation means to all worlds alike: a starting instance's row, a node's room and whether it is open."""
    kind, target, base = operations.kind[index], operations.target[index], run.base
    if kind <= START_SPOT:
        base.demand[target] = operations.sizes[operations.size[index]]
        base.born[target] = operations.born[index]
        base.deadline_us[target] = operations.deadline_us[index]
        base.is_spot[target] = kind == START_SPOT
        run.counters[YOUNGEST] = operations.born[index]
    elif kind != END:
        base.is_open[target] = kind in (NODE_ADDED, NODE_OPENED)
        if kind == NODE_ADDED:
            base.free[target] = operations.sizes[operations.size[index]]
        count_slots(run, target)


@compiled
def plan(cluster: Cluster, kind: int, target: int, now_us: int, policy: int, gone: Ints) -> tuple[int, int]:
    """What an operation does to a cluster; changes nothing.

    Returns the node that its instance goes to, or NO_NODE, and how many rows leave their nodes (`gone`).
    """
    if kind == START_SPOT:
        return first_fit(cluster, cluster.demand[target]), 0
    if kind == START_ON_DEMAND:
        return place_on_demand(cluster, cluster.demand[target], now_us, policy, gone)
    if kind == END and cluster.node_of[target] != NO_NODE:
        gone[0] = target
        return NO_NODE, 1
    if kind == NODE_REMOVED:
        return NO_NODE, spot_rows_on(cluster, target, gone)
    return NO_NODE, 0


@compiled
def spot_rows_on(cluster: Cluster, node: int, rows: Ints) -> int:
    """Fill `rows` with the spot instances on a node; returns how many."""
    count = 0
    for row in range(cluster.node_of.shape[0]):
        if cluster.node_of[row] == node and cluster.is_spot[row]:
            rows[count] = row
            count += 1
    return count


@bare
def follow_down(run: Run, left: int, kind: int, target: int, now_us: int, policy: int, node: int, count: int) -> int:
    """Lead the first `left` worlds, the last first, through an operation that the base is about to follow.

    The base puts it on `node`, and the first `count` rows of `gone` leave. A world that follows likewise keeps its
    difference. Returns 0, or how many worlds are left when there is no room for another one's differences.
    """
    if kind == END and run.strays[target] == 0 and not run.base.is_spot[target]:
        return 0
    first_fitting = node if count == 0 else NO_NODE
    for k in range(left - 1, -1, -1):
        if kind == END and target != run.worlds[k].older and find_moved(run, k, target) == NONE:
            continue
        node_there, count_there = plan_there(run, k, kind, target, now_us, policy, first_fitting)
        if node_there == node and count_there == 0 and count == 0:
            continue
        if has_virtual(run.lost, count_there):
            evict_virtual(run, k)
        elif has_room(run, k, 1 + count + count_there):
            follow(run, k, target, node_there, count_there, node, count)
        else:
            return k + 1
    return 0


@bare
def plan_there(run: Run, k: int, kind: int, target: int, now_us: int, policy: int, node: int) -> tuple[int, int]:
    """As `plan` in the k-th world, the rows in `lost`; `node` is the first in the base that fits a start."""
    if kind <= START_SPOT:
        found = first_fit_there(run, k, run.base.demand[target], node)
        if found != NO_NODE or kind == START_SPOT:
            return found, 0
    if kind == END:
        run.lost[0] = target
        return NO_NODE, int(node_in_world(run, k, target) != NO_NODE)
    if kind not in (START_ON_DEMAND, NODE_REMOVED):
        return NO_NODE, 0
    exchange(run, k, 1)
    node_there, count_there = plan(run.base, kind, target, now_us, policy, run.lost)
    exchange(run, k, -1)
    return node_there, count_there


@inlined
def follow(run: Run, k: int, target: int, node_there: int, count_there: int, node: int, count: int) -> None:
    """Note how the k-th world goes on: its instance at `node_there` and `lost` rows; the base is about to differ."""
    before = run.digests[k]
    for i in range(count_there):
        move_in_world(run, k, run.lost[i], NO_NODE)
        if run.lost[i] == run.worlds[k].older:
            run.digests[k] -= key(run.lost[i], _OLDER)
            run.worlds[k].older = LOST
    if node_there != NO_NODE:
        move_in_world(run, k, target, node_there)
    for i in range(count):
        move_in_base(run, k, run.gone[i], NO_NODE)
    if node != NO_NODE:
        move_in_base(run, k, target, node)
    if run.digests[k] != before:
        run.worlds[k].is_changed = 1
        run.counters[CHANGED] = 1


@bare
def has_virtual(rows: Ints, count: int) -> bool:
    """Whether the virtual instance is among the first rows."""
    for i in range(count):
        if rows[i] == VIRTUAL:
            return True
    return False


@bare
def enact(run: Run, target: int, node: int, count: int) -> None:
    """Lead the base through the operation."""
    base, youngest_left = run.base, False
    for i in range(count):
        left = base.node_of[run.gone[i]]
        release(base, run.gone[i])
        count_slots(run, left)
        youngest_left |= run.gone[i] == run.counters[YOUNGEST_SPOT]
    if youngest_left:
        base.born[VIRTUAL] = NEVER_US
        run.counters[YOUNGEST_SPOT] = next_older(base)
    if node != NO_NODE:
        place(base, target, node)
        count_slots(run, node)
        if base.is_spot[target]:
            run.counters[YOUNGEST_SPOT] = target


@bare
def count_slots(run: Run, node: int) -> None:
    """Count the flavor's available slots on a node that has changed."""
    slots = slots_on(run.base, run.base.demand[VIRTUAL], node)
    run.counters[SLOTS] += slots - run.slots[node]
    run.slots[node] = slots


@bare
def settle(run: Run) -> None:
    """Complete the worlds that followed otherwise than the base, and merge those that have become equal to another.

    Two worlds that both kept their differences were not equal before and are not now.
    """
    if not run.counters[CHANGED]:
        return
    run.counters[CHANGED] = 0
    for k in range(run.counters[WORLD_COUNT]):
        if run.worlds[k].older == LOST:
            exchange(run, k, 1)
            run.worlds[k].older = next_older(run.base)
            exchange(run, k, -1)
            run.digests[k] += key(run.worlds[k].older, _OLDER)
    for k in range(run.counters[WORLD_COUNT] - 1, -1, -1):
        if run.worlds[k].is_changed:
            run.worlds[k].is_changed = 0
            merge(run, k)


@bare
def next_older(cluster: Cluster) -> int:
    """The row of the youngest running spot instance that is older than the virtual one, or NONE."""
    found = NONE
    for row in range(VIRTUAL + 1, cluster.node_of.shape[0]):
        if cluster.node_of[row] == NO_NODE or not cluster.is_spot[row] or cluster.born[row] >= cluster.born[VIRTUAL]:
            continue
        if found == NONE or cluster.born[row] > cluster.born[found]:
            found = row
    return found


@bare
def merge(run: Run, k: int) -> None:
    """Merge the k-th world into another one that equals it, if there is one."""
    for j in range(run.counters[WORLD_COUNT] - 1, -1, -1):
        if run.digests[j] == run.digests[k] and j != k and equal_worlds(run, k, j):
            into, world = run.worlds[j], run.worlds[k]
            run.gap_fate[into.last_gap] = -2 - world.first_gap
            into.last_gap = world.last_gap
            into.newest_us = max(into.newest_us, world.newest_us)
            give_up(run, k)
            return


@bare
def evict_virtual(run: Run, k: int) -> None:
    """The virtual instance is evicted: so is that of every member, and nothing more is asked of this world."""
    gap = run.worlds[k].first_gap
    while gap != NONE:
        member, following = gap, run.gap_fate[gap]
        gap = NONE if following == NONE else -2 - following
        run.gap_fate[member] = run.counters[OPERATION_COUNT]
    give_up(run, k)
