"""Rejected on-demand starts that press on, by the log before them."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import InstanceRejected, Recorded
from app.domain.values import Market


def pressing(log: Sequence[Recorded]) -> set[str]:
    """Return the names of those that count as load until their declared ends."""
    found: list[InstanceRejected] = []
    for item in log:
        event = item.event
        if isinstance(event, InstanceRejected) and event.market is Market.ON_DEMAND and event.allowed == ():
            same = [one for one in found if (one.owner, one.flavor) == (event.owner, event.flavor)]
            if event.owner is None or all(one.at_us + (one.lifetime_us or 0) <= event.at_us for one in same):
                found.append(event)
    return {event.instance_id for event in found}
