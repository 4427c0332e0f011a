"""The room that a spot start would leave, and the room that comes back while it runs.

A forecast reads its figures from here, for a decision, an evaluation and a labelled case alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.engine.cluster import Bools, Cluster, Ints, slots_on
from app.engine.compiled import compiled, inlined, inner
from app.engine.intervals import BIN_US, INTERVAL_COUNT

_MANTISSA_BITS, _EXPONENT_OF_HALF = 52, 1022
"""Of a double: where the exponent begins, and the one of a number without bits before the point."""


class Outlook(NamedTuple):
    """The figures of what a start would find and leave, by resource; closed nodes count for nothing.

    slots: available slots just before the start; demand (R): the start's own; free (R): room on the open nodes once it
    runs, with the instances that would be evicted before it gone; capacity (R): of the open nodes; size (R): of the
    largest one; halves (R): half nodes that stay free, if the start takes the node where most stay; load (R): that of
    on-demand instances; excess (R): by how much the highest so far exceeds it; released (R, INTERVAL_COUNT): what spot
    instances that would be evicted after it use and give back before interval k begins, at their declared ends. Those
    that were extended are not expected to: who asked for more may ask again.
    """

    slots: int
    demand: Ints
    free: Ints
    capacity: Ints
    size: Ints
    halves: Ints
    load: Ints
    excess: Ints
    released: Ints


def slots_left(slots: int, count: int) -> int:
    """Return the slots at which a start of so many machines is quoted: those that its last machine finds.

    The first member of a group that is evicted takes all others with it, so the group's risk is that of its most
    exposed member.
    """
    return max(slots - count + 1, 0)


def with_slots(outlook: Outlook, slots: int) -> Outlook:
    """Return the outlook as if so many slots were available, with as much more or less room as these take."""
    if slots == outlook.slots:
        return outlook
    more = (slots - outlook.slots) * outlook.demand
    if not more.any():
        return outlook
    halves = outlook.halves + 2 * more // np.maximum(outlook.size, 1)
    return outlook._replace(slots=slots, free=outlook.free + more, halves=np.maximum(halves, 0))


@compiled
def look_ahead(
    cluster: Cluster, were_extended: Bools, sizes: Ints, demand: Ints, load: Ints, peak: Ints, born: int, now_us: int
) -> Outlook:
    """Return the outlook of a start with this demand (R), which is as old as instances that started at `born`.

    Those that started later and those that overrun would be evicted before it. `were_extended` (S): True for instances
    that run for longer than they first declared; `sizes` (N, R): the capacity of each node; `load`, `peak` (R): the
    on-demand load, and the highest so far. Without a slot the start is taken out of the room all the same, so `free`
    may be below zero.
    """
    resources = demand.shape[0]
    room, released = cluster.free.copy(), np.zeros((resources, INTERVAL_COUNT + 1), np.int64)
    for row in range(cluster.node_of.shape[0]):
        if not cluster.is_spot[row]:  # of most rows nothing more is read
            continue
        node = cluster.node_of[row]
        if node < 0 or not cluster.is_open[node]:
            continue
        left_us = cluster.deadline_us[row] - now_us
        if left_us < 0 or cluster.born[row] > born:
            for r in range(resources):
                room[node, r] += cluster.demand[row, r]
        elif not were_extended[row]:
            k = _released_before(left_us)
            for r in range(resources):
                released[r, k] += cluster.demand[row, r]
    for k in range(1, INTERVAL_COUNT):
        for r in range(resources):
            released[r, k] += released[r, k - 1]
    free, capacity, size, slots, halves = _sum_open(cluster, room, sizes, demand)
    excess, released = np.maximum(peak - load, 0), released[:, :INTERVAL_COUNT].copy()
    return Outlook(slots, demand, free, capacity, size, halves, load, excess, released)


@inlined
def _released_before(left_us: int) -> int:
    """Return the first interval that begins when an instance with so much time left has ended; its count if none.

    The intervals double, so it is the number of bits of the time in lengths of the first, read off the exponent of that
    number: a loop over the ends takes most of the pass.
    """
    lengths = np.float64((max(left_us, 1) - 1) // BIN_US)
    bits = int(lengths.view(np.int64) >> _MANTISSA_BITS) - _EXPONENT_OF_HALF
    return min(max(bits, 0) + 1, INTERVAL_COUNT)


@inner
def _sum_open(cluster: Cluster, room: Ints, sizes: Ints, demand: Ints) -> tuple[Ints, Ints, Ints, int, Ints]:
    """Return room after the start, capacity and largest size (R) of the open nodes, the slots on them, and the halves.

    The halves of a node (R) that stay free are counted for the best place for each resource, so that room never harms.
    """
    resources, slots = demand.shape[0], 0
    free, capacity, size = -demand, np.zeros(resources, np.int64), np.zeros(resources, np.int64)
    halves, least = np.zeros(resources, np.int64), np.full(resources, -1, np.int64)
    for node in range(room.shape[0]):
        if not cluster.is_open[node]:
            continue
        here = slots_on(cluster, demand, node)
        slots += here
        for r in range(resources):
            free[r] += room[node, r]
            capacity[r] += sizes[node, r]
            size[r] = max(size[r], sizes[node, r])
            if demand[r] > 0 and sizes[node, r] > 0:
                before = _halves_in(room[node, r], sizes[node, r])
                halves[r] += before
                if here > 0 and least[r] != 0:  # a place that takes none is the best
                    taken = before - _halves_in(room[node, r] - demand[r], sizes[node, r])
                    least[r] = taken if least[r] < 0 else min(least[r], taken)
    return free, capacity, size, slots, halves - np.maximum(least, 0)


@inlined
def _halves_in(room: int, size: int) -> int:
    """Return the whole halves of a size that a room holds; rooms are not larger than the size."""
    return int(2 * room >= size) + int(room >= size)
