"""Events of instances: decisions on starts, and the ends of instances.

Evictions precede the start that caused them, so no node exceeds its capacity after any event. Their `cause_seq`
points forward to that start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.values import Basis, EvictionReason, Market, Rejection


@event("instance_started", subject="instance_id", group=Group.START, outcome="accepted")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStarted:
    """A start was accepted. `probability` is the SLA that the request asked for, if any; `basis` is None for on-demand.

    Of a group, `nodes` are those of its members in order, and `node` is the first of them; else `nodes` is empty.
    `deadline_us` is the victims' deadline under a grace period, else None. `ready_us` is the time when the instance's
    room is free; None: at once.
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
    nodes: tuple[str, ...] = field(default=(), metadata={"since": 5})

    @property
    def count(self) -> int:
        """The number of machines: the members of a group, else 1."""
        return len(self.nodes) or 1

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node,)


@event("instance_rejected", subject="instance_id", group=Group.START, outcome="rejected")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRejected:
    """A start was rejected. `count` is the number of machines that it asked for."""

    at_us: int
    instance_id: str
    market: Market
    flavor: str
    reason: Rejection
    lifetime_us: int | None = None
    probability: float | None = None
    basis: Basis | None = None
    count: int = field(default=1, metadata={"since": 5})


@event("instance_stopped", subject="instance_id", group=Group.END, outcome="stopped")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStopped:
    at_us: int
    instance_id: str


@event("instance_evicted", subject="instance_id", group=Group.END, outcome="evicted", urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvicted:
    """A spot instance was evicted to make room for the event at `cause_seq`: an on-demand start or a node's removal.

    A drill makes room for nothing, so its eviction names itself as cause. The SLA counts a drill like a stop.
    """

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int = field(metadata={"description": "The event that it made room for, which follows; a drill's own."})


StartDecision = InstanceStarted | InstanceRejected
InstanceEvent = StartDecision | InstanceStopped | InstanceEvicted
