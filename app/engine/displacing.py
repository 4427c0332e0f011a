"""Spot starts that do not fit take the room of overrunning instances, whose promise is over.

Victims are chosen as for an on-demand start by `yjf`, among the overrunning instances alone: one order of eviction
holds for both markets, and the set is minimal on the node that the start then takes.
"""

from __future__ import annotations

from app.engine.cluster import NO_NODE, YJF, Cluster, Ints
from app.engine.compiled import bare, compiled
from app.engine.eviction import plan_eviction, spot_rows_by_youth


@bare
def overrunning_count(cluster: Cluster, by_youth: Ints, now_us: int) -> int:
    """Return how many of these rows overrun; they stand first in the order of youth."""
    count = 0
    while count < by_youth.shape[0] and now_us > cluster.deadline_us[by_youth[count]]:
        count += 1
    return count


@compiled
def displace(cluster: Cluster, demand: Ints, now_us: int, victims: Ints) -> tuple[int, int]:
    """Return the node to clear of overrunning instances for a demand (R) that fits nowhere, and how many `victims` (S).

    Return (NO_NODE, 0) if that makes no room.
    """
    by_youth = spot_rows_by_youth(cluster, now_us)
    count = overrunning_count(cluster, by_youth, now_us)
    if count == 0:
        return NO_NODE, 0
    return plan_eviction(cluster, demand, by_youth[:count], cluster.free.copy(), YJF, victims)
