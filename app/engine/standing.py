"""A running spot instance seen among the others: what would have to be evicted before it.

Instances that started later, those that overrun, and what goes first are evicted before it. So it sees their room as if
it were free.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.engine.cluster import NO_NODE, Cluster, Ints, add, release, slots_on
from app.engine.compiled import compiled
from app.engine.exposure import share


def without(cluster: Cluster, rows: Iterable[int]) -> Cluster:
    """Return the cluster as if the instance in these rows did not run, as a copy where they differ."""
    rest = cluster._replace(free=cluster.free.copy(), node_of=cluster.node_of.copy())
    for row in rows:
        release(rest, row)
    return rest


@compiled
def slots_seen(cluster: Cluster, demand: Ints, born: int, now_us: int) -> int:
    """Return how many instances of a demand (R) fit once all are gone that started after `born`, or overrun."""
    room = cluster.free.copy()
    for row in range(cluster.node_of.shape[0]):
        is_there = cluster.is_spot[row] and cluster.node_of[row] != NO_NODE
        if is_there and (cluster.born[row] > born or now_us > cluster.deadline_us[row]):
            add(room[cluster.node_of[row]], cluster.demand[row], 1)
    seen = Cluster(
        room,
        cluster.is_open,
        cluster.node_of,
        cluster.demand,
        cluster.born,
        cluster.deadline_us,
        cluster.is_spot,
    )
    slots = 0
    for node in range(room.shape[0]):
        slots += slots_on(seen, demand, node)
    return slots


@compiled
def reach(cluster: Cluster, oldest_first: Ints, room: Ints, row: int, now_us: int) -> float:
    """Return the share of the room (R) at which the row's instance stands: its own part, and that of all older ones.

    A group's own part is that of all its members on open nodes. oldest_first (K): the rows of spot instances by age.
    The share is 0 on a closed node, where on-demand starts never evict it. See engine.exposure.
    """
    taken, reached = np.zeros(room.shape[0], np.int64), 0.0
    for other in oldest_first:
        if cluster.born[other] > cluster.born[row]:
            break
        if now_us > cluster.deadline_us[other] or not cluster.is_open[cluster.node_of[other]]:
            continue
        for r in range(room.shape[0]):
            taken[r] += cluster.demand[other, r]
        if cluster.born[other] == cluster.born[row]:
            reached = share(taken, room)
    return reached
