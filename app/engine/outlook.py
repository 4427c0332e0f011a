"""The room that a spot start would leave, and the room that comes back while it runs.

A forecast reads its figures from here, for a decision, an evaluation and a labelled case alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.engine.cluster import Cluster, Ints, add, fits, slots_on
from app.engine.compiled import compiled
from app.engine.intervals import BIN_US, INTERVAL_COUNT


class Outlook(NamedTuple):
    """The figures of what a start would find and leave, by resource; closed nodes count for nothing.

    slots: available slots just before the start; demand (R): the start's own; free (R): room on the open nodes once it
    runs, with the instances that would be evicted before it gone; capacity (R): of the open nodes; size (R): of the
    largest one; halves (R): half nodes that stay free, if the start takes the node where most stay; excess (R): by how
    much the highest on-demand load so far exceeds the present one; released (R, INTERVAL_COUNT): what spot instances
    that would be evicted after it use and give back before interval k begins, at their declared ends.
    """

    slots: int
    demand: Ints
    free: Ints
    capacity: Ints
    size: Ints
    halves: Ints
    excess: Ints
    released: Ints


def with_slots(outlook: Outlook, slots: int) -> Outlook:
    """Return the outlook as if so many slots were available, with as much more or less room as these take."""
    more = (slots - outlook.slots) * outlook.demand
    if not more.any():
        return outlook
    halves = outlook.halves + 2 * more // np.maximum(outlook.size, 1)
    return outlook._replace(slots=slots, free=outlook.free + more, halves=np.maximum(halves, 0))


@compiled
def look_ahead(cluster: Cluster, demand: Ints, peak: Ints, born: int, now_us: int) -> Outlook:
    """Return the outlook of a start with this demand (R), which is as old as instances that started at `born`.

    Those that started later and those that overrun would be evicted before it. `peak` (R): the highest on-demand load
    so far. Without a slot the start is taken out of the room all the same, so `free` may be below zero.
    """
    resources, count = demand.shape[0], cluster.free.shape[0]
    sizes, room = cluster.free.copy(), cluster.free.copy()
    on_demand, released = np.zeros(resources, np.int64), np.zeros((resources, INTERVAL_COUNT), np.int64)
    for row in range(cluster.node_of.shape[0]):
        node = cluster.node_of[row]
        if node < 0:
            continue
        add(sizes[node], cluster.demand[row], 1)
        if not cluster.is_spot[row]:
            add(on_demand, cluster.demand[row], 1)
        elif cluster.born[row] > born or cluster.deadline_us[row] < now_us:
            add(room[node], cluster.demand[row], 1)
        elif cluster.is_open[node]:
            _release(released, cluster.demand[row], cluster.deadline_us[row] - now_us)
    free, capacity, size = -demand, np.zeros(resources, np.int64), np.zeros(resources, np.int64)
    slots = 0
    for node in range(count):
        if cluster.is_open[node]:
            slots += slots_on(cluster, demand, node)
            add(free, room[node], 1)
            add(capacity, sizes[node], 1)
            for r in range(resources):
                size[r] = max(size[r], sizes[node, r])
    halves = _halves(cluster, demand, room, sizes)
    return Outlook(slots, demand, free, capacity, size, halves, np.maximum(peak - on_demand, 0), released)


@compiled
def _release(released: Ints, demand: Ints, left_us: int) -> None:
    """Count an instance in the intervals (K) that begin after its declared end."""
    for k in range(1, INTERVAL_COUNT):
        if left_us <= BIN_US << (k - 1):
            for r in range(demand.shape[0]):
                released[r, k] += demand[r]


@compiled
def _halves(cluster: Cluster, demand: Ints, room: Ints, sizes: Ints) -> Ints:
    """Return how many halves of a node (R) stay free; the best place for each resource, so that room never harms."""
    resources = demand.shape[0]
    total, least = np.zeros(resources, np.int64), np.full(resources, -1, np.int64)
    for node in range(room.shape[0]):
        if not cluster.is_open[node]:
            continue
        is_place = fits(cluster.free[node], demand)
        for r in range(resources):
            if sizes[node, r] > 0:
                before = 2 * room[node, r] // sizes[node, r]
                total[r] += before
                taken = before - 2 * (room[node, r] - demand[r]) // sizes[node, r]
                if is_place and (least[r] < 0 or taken < least[r]):
                    least[r] = taken
    return total - np.maximum(least, 0)
