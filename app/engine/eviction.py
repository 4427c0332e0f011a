"""The choice of the instances that an on-demand start evicts. A group of instances is evicted as a whole.

Shapes and types are those of `app.engine.cluster`. The members of a group have one start order, so wherever rows are
sorted by age they stand together; here they count as one instance that runs on several nodes.
"""

from __future__ import annotations

import numpy as np

from app.engine.cluster import GOES_FIRST_US, NEVER_US, NO_NODE, YJF_GLOBAL, Cluster, Ints, add, fits, fitting_node
from app.engine.compiled import bare, compiled, inlined


@compiled
def spot_rows_by_youth(cluster: Cluster, now_us: int) -> Ints:
    """Return the rows of running spot instances, youngest first.

    Overrunning ones count as younger than those, and what goes first as youngest of all. The rows of a group's members
    stand together.
    """
    rows = np.empty(cluster.node_of.shape[0], np.int64)
    age = np.empty(cluster.node_of.shape[0], np.int64)
    count = 0
    for row in range(cluster.node_of.shape[0]):
        if cluster.is_spot[row] and cluster.node_of[row] != NO_NODE:
            rows[count] = row
            age[count] = -cluster.born[row]
            if now_us > cluster.deadline_us[row]:
                age[count] -= NEVER_US
            if cluster.deadline_us[row] == GOES_FIRST_US:
                age[count] -= NEVER_US // 2
            count += 1
    # The default, quicksort, takes quadratic time if overrunning instances alternate with others.
    return rows[np.argsort(age[:count], kind="mergesort")]


@inlined
def group_end(cluster: Cluster, rows: Ints, begin: int, end: int) -> int:
    """Return the place behind the last of the rows from `begin` to before `end` that are of the same instance.

    The members of a group have one start order; any other instance has its own.
    """
    at = begin + 1
    while at < end and cluster.born[rows[at]] == cluster.born[rows[begin]]:
        at += 1
    return at


@bare
def add_those_on(cluster: Cluster, node: int, rows: Ints, room: Ints, sign: int) -> None:
    """Add what the rows' instances use of a node to a room (R), or subtract it (sign -1)."""
    for row in rows:
        if cluster.node_of[row] == node:
            add(room, cluster.demand[row], sign)


@bare
def spare_unneeded(cluster: Cluster, demand: Ints, node: int, room: Ints, victims: Ints, count: int) -> int:
    """Remove from `victims` those whose eviction the node does not need, trying the oldest first; return how many stay.

    The rows of a group stay or go together. `room` (R) is the node's with all victims gone; it is restored to what it
    is with all of them there.
    """
    end = count
    while end > 0:
        begin = end - 1
        while begin > 0 and cluster.born[victims[begin - 1]] == cluster.born[victims[end - 1]]:
            begin -= 1
        add_those_on(cluster, node, victims[begin:end], room, -1)
        if fits(room, demand):
            for i in range(begin, end):
                victims[i] = NO_NODE
        else:
            add_those_on(cluster, node, victims[begin:end], room, 1)
        end = begin
    kept = 0
    for i in range(count):
        if victims[i] != NO_NODE:
            victims[kept] = victims[i]
            kept += 1
    add_those_on(cluster, node, victims[:kept], room, -1)
    return kept


@bare
def collect_victims(cluster: Cluster, by_youth: Ints, node: int, victims: Ints) -> int:
    """Fill `victims` with the instances that run on a node, or on any open one (NO_NODE); return the number of rows.

    A group is a victim as a whole, wherever its other members run.
    """
    count, begin = 0, 0
    while begin < by_youth.shape[0]:
        end = group_end(cluster, by_youth, begin, by_youth.shape[0])
        is_victim = False
        for i in range(begin, end):
            there = cluster.node_of[by_youth[i]]
            is_victim |= there != NO_NODE and (there == node or (node == NO_NODE and cluster.is_open[there]))
        for i in range(begin, end if is_victim else begin):
            victims[count] = by_youth[i]
            count += 1
        begin = end
    return count


@bare
def clear_node(cluster: Cluster, demand: Ints, walk: Ints, node: int, room: Ints, victims: Ints) -> int:
    """Fill `victims` with those of the walk that a node must lose for a demand (R), and return the number of rows.

    Return 0 if all of them do not make room. `room` (R): the node's free room, restored on return.
    """
    count = collect_victims(cluster, walk, node, victims)
    add_those_on(cluster, node, victims[:count], room, 1)
    if fits(room, demand):
        return spare_unneeded(cluster, demand, node, room, victims, count)
    add_those_on(cluster, node, victims[:count], room, -1)
    return 0


@bare
def clear_or_empty(cluster: Cluster, demand: Ints, by_youth: Ints, node: int, room: Ints, victims: Ints) -> int:
    """Fill `victims` with those that a node must lose for a demand (R), and return the number of rows.

    All spot instances there, if even that does not make room. `room` (R): what the node has free, restored on return;
    it is below zero where the node has become too small.
    """
    if fits(room, demand):
        return 0
    count = clear_node(cluster, demand, by_youth, node, room, victims)
    return count if count > 0 else collect_victims(cluster, by_youth, node, victims)


@compiled
def clear_for(cluster: Cluster, demand: Ints, now_us: int, node: int, room: Ints, victims: Ints) -> int:
    """Return what `clear_or_empty` does among all that run now."""
    return clear_or_empty(cluster, demand, spot_rows_by_youth(cluster, now_us), node, room, victims)


@bare
def walk_until_room(cluster: Cluster, demand: Ints, by_youth: Ints, room: Ints) -> tuple[int, int]:
    """Return the places where the instance begins and ends that makes room somewhere once all before it are gone.

    Return (0, 0) if all of them do not. `room` (N, R): the free room, restored on return.
    """
    found, begin, end = False, 0, 0
    while not found and end < by_youth.shape[0]:
        begin, end = end, group_end(cluster, by_youth, end, by_youth.shape[0])
        for i in range(begin, end):
            node = cluster.node_of[by_youth[i]]
            if node != NO_NODE and cluster.is_open[node]:
                add(room[node], cluster.demand[by_youth[i]], 1)
                found = found or fits(room[node], demand)
    for i in range(end):
        node = cluster.node_of[by_youth[i]]
        if node != NO_NODE and cluster.is_open[node]:
            add(room[node], cluster.demand[by_youth[i]], -1)
    return (begin, end) if found else (0, 0)


@bare
def plan_eviction(
    cluster: Cluster, demand: Ints, by_youth: Ints, room: Ints, policy: int, victims: Ints
) -> tuple[int, int]:
    """Return the node to clear for a demand (R) that does not fit, and the number of `victims` (S rows, youngest
    first).

    Returns (NO_NODE, 0) if evicting all spot instances of any one node would not make room. `by_youth`: rows of spot
    instances, youngest first, a group's together; those that do not run are skipped. `room` (N, R): the free room,
    restored on return; it may be `cluster.free` itself if nobody else reads that meanwhile.
    In a walk over all spot instances, youngest first, the node that has room first is the one whose oldest victim is
    youngest. The instance that made room is always needed, so it is that node's oldest victim. Start order is strict,
    so only the members of a group make room in one step. Then the node that costs the fewest machines is taken, of
    these the first. `yjf_global` evicts every instance on the walk, for the first node that then has room.
    """
    begin, end = walk_until_room(cluster, demand, by_youth, room)
    walk, found, fewest = by_youth[:end], NO_NODE, 0
    for i in range(begin, end):
        node = cluster.node_of[by_youth[i]]
        if node in (NO_NODE, found) or not cluster.is_open[node]:
            continue
        count = clear_node(cluster, demand, walk, node, room[node], victims)
        if policy == YJF_GLOBAL:
            count = min(count, 1)
        if count > 0 and (found == NO_NODE or count < fewest or (count == fewest and node < found)):
            found, fewest = node, count
    if found == NO_NODE:
        return found, 0
    if policy == YJF_GLOBAL:
        return found, collect_victims(cluster, walk, NO_NODE, victims)
    return found, clear_node(cluster, demand, walk, found, room[found], victims)


@compiled
def place_on_demand(
    cluster: Cluster, demand: Ints, now_us: int, placement: int, policy: int, victims: Ints
) -> tuple[int, int]:
    """Return the node for an on-demand start and the number of victims; (NO_NODE, 0) if there is none."""
    node = fitting_node(cluster, demand, placement)
    if node != NO_NODE:
        return node, 0
    return plan_eviction(cluster, demand, spot_rows_by_youth(cluster, now_us), cluster.free.copy(), policy, victims)
