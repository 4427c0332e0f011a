"""The charges of running spot instances in plain Python: a walk over them for each class, oldest first."""

from __future__ import annotations

from math import inf

from app.domain.values import Market, NodeStatus, Resources
from app.engine.cloud import Cloud

UNCOUNTED = 2**40
"""The room of a node in a resource that it does not count."""


def charges(cloud: Cloud, probability: float, now_us: int) -> float:
    """Return what the class is charged, added up in the order of age."""
    room, taken, committed = room_left(cloud), [0] * len(Resources._fields), 0.0
    for one in sorted(cloud.running.values(), key=lambda one: one.seq):
        if one.market is Market.ON_DEMAND or one.goes_first or now_us > one.deadline_us:
            continue
        count = sum(cloud.nodes[node].status is NodeStatus.OPEN for node in one.places)
        if not count:
            continue
        taken = [a + count * b for a, b in zip(taken, cloud.flavors[one.flavor].resources, strict=True)]
        if (one.probability or 0.0) == probability:
            committed += charge(reached(taken, room), one.deadline_us - now_us, now_us - cloud.created_us)
    return committed


def room_left(cloud: Cloud) -> list[int]:
    sizes = [
        [size or UNCOUNTED for size in node.capacity] for node in cloud.nodes.values() if node.status is NodeStatus.OPEN
    ]
    total = [sum(column) for column in zip(Resources(0), *sizes, strict=True)]
    return [size - peak for size, peak in zip(total, cloud.on_demand_peak, strict=True)]


def reached(taken: list[int], room: list[int]) -> float:
    return max(0.0, *(t / r if r > 0 else inf for t, r in zip(taken, room, strict=True) if t > 0))


def charge(share: float, left_us: int, seen_us: int) -> float:
    if share > 1.0:
        return 1.0
    return left_us / (seen_us + left_us) * share if left_us > 0 else 0.0
