"""The room that a peer may have at a host beside what it has."""

from __future__ import annotations

from app.domain.values import NodeStatus
from app.engine.cloud import Cloud
from app.federation.rules.foreignside import PeerQuota

_WHOLE = 100


def slots_left(cloud: Cloud, origin: str, flavor: str, quota: PeerQuota) -> int:
    """Return how many more instances of a flavor a peer's share of the cores allows, beside what it holds and runs."""
    rooms = [cloud.jobs.held[key] for key in cloud.jobs.host.open_attempts() if key.origin == origin]
    used = sum(one.count * cloud.flavors[one.flavor].resources.cores for one in rooms)
    every = sum(node.capacity.cores for node in cloud.nodes_in_order() if node.status is NodeStatus.OPEN)
    return max(every * quota.cores_share // _WHOLE - used, 0) // cloud.flavors[flavor].resources.cores
