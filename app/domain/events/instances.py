"""Events of instances: decisions on starts, and ends.

Evictions stand before the start that caused them, so that no node is over its capacity after any event; their
`cause_seq` points forward to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.values import Basis, EvictionReason, Market, Rejection


@event("instance_started", subject="instance_id", group=Group.START, outcome="accepted")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStarted:
    """A start was accepted. `probability` is the request's own SLA, if it has one; `basis` is None for on-demand.

    Under a grace period `deadline_us` is the victims', and `ready_us` says from when the instance's room is free; None:
    there are no victims, and it is free at once.
    """

    at_us: int
    instance_id: str
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None = None
    probability: float | None = None
    basis: Basis | None = None
    victims: tuple[str, ...] = field(default=())
    deadline_us: int | None = None
    ready_us: int | None = None


@event("instance_rejected", subject="instance_id", group=Group.START, outcome="rejected")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRejected:
    at_us: int
    instance_id: str
    market: Market
    flavor: str
    reason: Rejection
    lifetime_us: int | None = None
    probability: float | None = None
    basis: Basis | None = None


@event("instance_stopped", subject="instance_id", group=Group.END, outcome="stopped")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStopped:
    at_us: int
    instance_id: str


@event("instance_evicted", subject="instance_id", group=Group.END, outcome="evicted", urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvicted:
    """`cause_seq` is the seq of the on-demand start, or of the node's removal, that it made room for.

    A drill makes room for nothing: its eviction is its own cause. To the SLA it is what a stop is.
    """

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int = field(metadata={"description": "The event that it made room for, which follows; a drill's own."})


StartDecision = InstanceStarted | InstanceRejected
InstanceEvent = StartDecision | InstanceStopped | InstanceEvicted
