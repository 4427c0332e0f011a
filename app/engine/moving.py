"""Moves that would let an on-demand start find room without an eviction: its victims would run on other nodes.

Shapes and types are those of `app.engine.cluster`; F flavors. Nothing is moved here: controllers do that. The functions
work on a copy of the cluster, on which they note what they propose.
"""

from __future__ import annotations

from app.engine.cluster import (
    NO_NODE,
    YJF,
    Bools,
    Cluster,
    Ints,
    is_tighter,
    place,
    release,
    slots_on,
)
from app.engine.compiled import compiled, inlined, inner
from app.engine.eviction import plan_eviction

MOST_MOVED = 16
"""The number of instances that are proposed to be moved for one start at most."""


@inlined
def fits_beside(room: Ints, leaving: Ints, demand: Ints) -> bool:
    """Return True if a demand (R) fits into a room (R) beside what has not left it yet (R)."""
    for r in range(demand.shape[0]):
        if demand[r] + leaving[r] > room[r]:
            return False
    return True


@inner
def all_overrun(cluster: Cluster, victims: Ints, count: int, now_us: int) -> bool:
    """Return True if none of these rows is within its declared lifetime, so that no promise would be broken."""
    for i in range(count):
        if now_us <= cluster.deadline_us[victims[i]]:
            return False
    return True


@inner
def has_group(cluster: Cluster, rows: Ints, count: int) -> bool:
    """Return True if members of a group are among these rows; they stand together."""
    for i in range(1, count):
        if cluster.born[rows[i]] == cluster.born[rows[i - 1]]:
            return True
    return False


@inner
def count_on(cluster: Cluster, demands: Ints, node: int, slots: Ints, sign: int) -> None:
    """Add the slots that each demand (F, R) has on a node to the slots (F), or subtract them (sign -1)."""
    for kind in range(demands.shape[0]):
        slots[kind] += sign * slots_on(cluster, demands[kind], node)


@inner
def leave(cluster: Cluster, demands: Ints, row: int, slots: Ints) -> None:
    """Take the row's instance off its node, and count the slots (F) of the demands (F, R) anew."""
    node = cluster.node_of[row]
    count_on(cluster, demands, node, slots, -1)
    release(cluster, row)
    count_on(cluster, demands, node, slots, 1)


@inner
def come(cluster: Cluster, demands: Ints, row: int, node: int, slots: Ints) -> None:
    """Let the row's instance run on a node, and count the slots (F) of the demands (F, R) anew."""
    count_on(cluster, demands, node, slots, -1)
    place(cluster, row, node)
    count_on(cluster, demands, node, slots, 1)


@inner
def keeps_room(cluster: Cluster, demands: Ints, row: int, node: int, had: Bools, slots: Ints) -> bool:
    """Return True if each demand (F, R) that `had` (F) slots still has one with the row's instance on a node."""
    come(cluster, demands, row, node, slots)
    keeps = True
    for kind in range(demands.shape[0]):
        keeps = keeps and (slots[kind] > 0 or not had[kind])
    leave(cluster, demands, row, slots)
    return keeps


@inner
def tightest_other(cluster: Cluster, demands: Ints, row: int, node: int, leaving: Ints, had: Bools, slots: Ints) -> int:
    """Return the tightest open node but this one that has room for the row's instance, which runs nowhere, or NO_NODE.

    Nodes whose room is the last for a demand (F, R) that `had` (F) slots are left out. `leaving` (N, R): what evicted
    instances may still use of each node.
    """
    demand, found = cluster.demand[row], NO_NODE
    for other in range(cluster.free.shape[0]):
        if other == node or not cluster.is_open[other]:
            continue
        if not fits_beside(cluster.free[other], leaving[other], demand):
            continue
        if found != NO_NODE and not is_tighter(cluster.free[other], cluster.free[found], demand):
            continue
        if keeps_room(cluster, demands, row, other, had, slots):
            found = other
    return found


@compiled
def plan_moves(
    cluster: Cluster, demands: Ints, kind: int, by_youth: Ints, leaving: Ints, now_us: int, slots: Ints, movers: Ints
) -> int:
    """Move those whom an on-demand start of one of the demands (F, R) would evict, and return how many `movers` (S).

    After that the start finds room, and no demand that had `slots` (F) has lost all of them; the cluster and the slots
    tell the new places. Return 0, with nothing moved, if there is room already, if nothing makes room, if all who would
    be evicted overrun, or if they cannot all move: groups do not. `by_youth`: rows of spot instances, youngest first.
    `leaving` (N, R): see `tightest_other`.
    """
    if slots[kind] > 0:
        return 0
    node, count = plan_eviction(cluster, demands[kind], by_youth, cluster.free, YJF, movers)
    if count > MOST_MOVED or has_group(cluster, movers, count) or all_overrun(cluster, movers, count, now_us):
        return 0
    had, moved = slots > 0, 0
    while moved < count:
        row = movers[moved]
        leave(cluster, demands, row, slots)
        other = tightest_other(cluster, demands, row, node, leaving, had, slots)
        come(cluster, demands, row, node if other == NO_NODE else other, slots)
        if other == NO_NODE:
            break
        moved += 1
    if moved == count:
        return count
    while moved > 0:
        moved -= 1
        leave(cluster, demands, movers[moved], slots)
        come(cluster, demands, movers[moved], node, slots)
    return 0
