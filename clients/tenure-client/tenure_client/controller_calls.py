"""Calls of controllers, which move and stop instances and say so, described like those in `calls`."""

from __future__ import annotations

from datetime import datetime

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.instances import HandoverAnswer, MoveAnswer, ProposalsAnswer


def move(cloud: str, instance: str, node: str, *, at: datetime | None = None) -> Call[MoveAnswer]:
    """Say that a running instance, which is no group, runs on this node now. Repeating the call changes nothing."""
    return endpoints.MOVE.call(body={"node": node, "at": at}, cloud=cloud, instance=instance)


def proposals(cloud: str) -> Call[ProposalsAnswer]:
    """Ask for moves after which the next on-demand starts would evict nobody. Nothing is changed."""
    return endpoints.PROPOSALS.call(cloud=cloud)


def handovers(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[HandoverAnswer]:
    """List evictions that no controller has confirmed, by deadline."""
    query = {"limit": limit, "marker": marker}
    return Listing(endpoints.HANDOVERS.call(query=query, cloud=cloud), lambda page: page.handovers)


def confirm_handover(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Confirm that an evicted instance is stopped. Repeating the call changes nothing."""
    return endpoints.CONFIRM_HANDOVER.call(query={"at": at}, cloud=cloud, handover=instance)
