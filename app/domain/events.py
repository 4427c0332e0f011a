"""What happened, in the past tense. The log is a sequence of these, numbered 1, 2, 3, ... within a cloud.

Evictions stand before the start that caused them, so that no node is over its capacity after any event;
their `cause_seq` points forward to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.requests import StartRequest
from app.domain.values import Basis, EvictionReason, Market, Policy, Rejection, Resources, RiskLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudCreated:
    at_us: int
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    at_us: int
    policy: Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    at_us: int
    node: str
    capacity: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    at_us: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOpened:
    """A drained node takes placements again."""

    at_us: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    at_us: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorAdded:
    """Flavors never change and never go: the log's history stays readable."""

    at_us: int
    flavor: str
    demand: Resources


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStopped:
    at_us: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvicted:
    """`cause_seq` is the seq of the on-demand start, or of the node's removal, that it made room for.

    A drill makes room for nothing: its eviction is its own cause. To the SLA it is what a stop is.
    """

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionScheduled:
    """Under a grace period: the instance whose eviction follows may go on running until its deadline."""

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int
    deadline_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionConfirmed:
    """The controller has stopped an instance that was evicted."""

    at_us: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionOverdue:
    """The deadline has passed, and no controller has confirmed that the instance was stopped."""

    at_us: int
    instance_id: str
    deadline_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRisk:
    """A running spot instance's risk of being evicted in its remaining lifetime has passed the threshold, or is back.

    `probability` is what the table of `epoch` gives for that lifetime at `slots`, the slots as the instance sees them.
    """

    at_us: int
    instance_id: str
    level: RiskLevel
    probability: float
    threshold: float
    epoch: int
    slots: int


StartDecision = InstanceStarted | InstanceRejected
Notice = EvictionScheduled | EvictionConfirmed | EvictionOverdue | EvictionRisk
Event = (
    CloudCreated
    | PolicyChanged
    | NodeAdded
    | NodeDrained
    | NodeOpened
    | NodeRemoved
    | FlavorAdded
    | InstanceStarted
    | InstanceRejected
    | InstanceStopped
    | InstanceEvicted
    | Notice
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event at its position in its cloud's log."""

    seq: int
    event: Event


def answers_request(decision: StartDecision, request: StartRequest, *, external: bool) -> bool:
    """Whether this decision was taken on this very request: same id and same body.

    The time is part of the body only where the request brings it (an external clock).
    """
    return (
        decision.instance_id == request.instance_id
        and decision.market == request.market
        and decision.flavor == request.flavor
        and decision.lifetime_us == request.lifetime_us
        and decision.probability == request.eviction_probability
        and (not external or decision.at_us == request.at_us)
    )
