"""Spot starts that do not fit take the room of overrunning instances, whose promise is over.

Victims are chosen as for an on-demand start by `yjf`, among the overrunning instances alone: one order of eviction
holds for both markets, and the set is minimal on the node that the start then takes. What goes first never overruns.
"""

from __future__ import annotations

from app.engine.cluster import GOES_FIRST_US, NO_NODE, YJF, Cluster, Ints
from app.engine.compiled import bare, compiled
from app.engine.eviction import plan_eviction, spot_rows_by_youth


@bare
def overrunning_span(cluster: Cluster, by_youth: Ints, now_us: int) -> tuple[int, int]:
    """Return the places where the overrunning ones of these rows begin and end: behind those that go first."""
    begin = 0
    while begin < by_youth.shape[0] and cluster.deadline_us[by_youth[begin]] == GOES_FIRST_US:
        begin += 1
    end = begin
    while end < by_youth.shape[0] and now_us > cluster.deadline_us[by_youth[end]]:
        end += 1
    return begin, end


@compiled
def displace(cluster: Cluster, demand: Ints, now_us: int, victims: Ints) -> tuple[int, int]:
    """Return the node to clear of overrunning instances for a demand (R) that fits nowhere, and how many `victims` (S).

    Return (NO_NODE, 0) if that makes no room.
    """
    by_youth = spot_rows_by_youth(cluster, now_us)
    begin, end = overrunning_span(cluster, by_youth, now_us)
    if begin == end:
        return NO_NODE, 0
    return plan_eviction(cluster, demand, by_youth[begin:end], cluster.free.copy(), YJF, victims)
