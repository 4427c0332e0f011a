"""Events of the cloud itself: its creation and changes of its policy."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.events.kinds import Group, event
from app.domain.values import Policy


@event("cloud_created", group=Group.POLICY)
@dataclass(frozen=True, slots=True, kw_only=True)
class CloudCreated:
    at_us: int
    policy: Policy


@event("policy_changed", group=Group.POLICY)
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    at_us: int
    policy: Policy


CloudEvent = CloudCreated | PolicyChanged
