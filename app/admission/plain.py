"""The requests on which nothing but the room decides, so that many of them are decided together."""

from __future__ import annotations

from app.domain.requests import StartRequest
from app.domain.values import Market
from app.engine.cloud import Cloud


def is_plain_start(cloud: Cloud, start: StartRequest) -> bool:
    """Return True for an on-demand start that nothing speaks against, of an instance that does not run."""
    return (
        start.market is Market.ON_DEMAND
        and start.count == 1
        and not start.nodes
        and start.eviction_probability is None
        and start.flavor in cloud.flavors
        and start.instance_id not in cloud.running
    )


def runs_alone(cloud: Cloud, instance_id: str) -> bool:
    """Return True for a running instance that is no group."""
    running = cloud.running.get(instance_id)
    return running is not None and running.count == 1
