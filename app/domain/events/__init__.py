"""The events that a log consists of, named in the past tense and numbered 1, 2, 3, ... within a cloud.

Each family of kinds has a file. A kind's name in the log, its version and its urgency stand above its class;
`registry` collects them.
"""

from __future__ import annotations

from app.domain.events.clouds import CloudCreated, CloudEvent, PolicyChanged
from app.domain.events.extensions import ExtensionDecision, ExtensionRejected, InstanceExtended
from app.domain.events.instances import (
    InstanceEvent,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    StartDecision,
)
from app.domain.events.jobs import (
    ForeignEvent,
    ForeignJobAdmitted,
    ForeignJobEnded,
    ForeignJobStaging,
    JobAdmitted,
    JobAwarded,
    JobCancelled,
    JobCollected,
    JobDeclined,
    JobEnded,
    JobEvent,
    JobOffered,
    JobOutputsLost,
    JobRequested,
    PeerPaused,
    PeerResumed,
    RoomHeld,
)
from app.domain.events.moves import InstanceMoved
from app.domain.events.nodes import FlavorAdded, NodeAdded, NodeDrained, NodeEvent, NodeOpened, NodeRemoved, NodeResized
from app.domain.events.notices import (
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    Notice,
    PromiseEnding,
)
from app.domain.events.quotas import QuotaEvent, QuotaRemoved, QuotaSet
from app.domain.quick import quick
from app.domain.requests import StartRequest

__all__ = [
    "CloudCreated",
    "Event",
    "EvictionConfirmed",
    "EvictionOverdue",
    "EvictionRisk",
    "EvictionScheduled",
    "ExtensionDecision",
    "ExtensionRejected",
    "FlavorAdded",
    "ForeignJobAdmitted",
    "ForeignJobEnded",
    "ForeignJobStaging",
    "InstanceEvicted",
    "InstanceExtended",
    "InstanceMoved",
    "InstanceRejected",
    "InstanceStarted",
    "InstanceStopped",
    "JobAdmitted",
    "JobAwarded",
    "JobCancelled",
    "JobCollected",
    "JobDeclined",
    "JobEnded",
    "JobOffered",
    "JobOutputsLost",
    "JobRequested",
    "NodeAdded",
    "NodeDrained",
    "NodeOpened",
    "NodeRemoved",
    "NodeResized",
    "Notice",
    "PeerPaused",
    "PeerResumed",
    "PolicyChanged",
    "PromiseEnding",
    "QuotaRemoved",
    "QuotaSet",
    "Recorded",
    "RoomHeld",
    "StartDecision",
    "answers_request",
]

Event = (
    CloudEvent
    | NodeEvent
    | InstanceEvent
    | Notice
    | ExtensionDecision
    | QuotaEvent
    | InstanceMoved
    | JobEvent
    | ForeignEvent
)
"""Any event. The order of the union is the order in which kinds are listed."""


@quick()
class Recorded:
    """An event together with its position in its cloud's log."""

    seq: int
    event: Event


def answers_request(decision: StartDecision, request: StartRequest, *, external: bool) -> bool:
    """Return True if this decision was taken on this very request: same id and same body.

    The time counts as part of the body only if the request brings it (external clock). The nodes that it may take do
    not: a controller that repeats a start may be able to use others by then.
    """
    return (
        decision.instance_id == request.instance_id
        and decision.market == request.market
        and decision.flavor == request.flavor
        and decision.count == request.count
        and decision.wanted == request.wanted
        and (decision.lifetime_us == request.lifetime_us or request.wanted is not None)
        and decision.probability == request.eviction_probability
        and (decision.project, decision.user) == (request.project, request.user)
        and (not external or decision.at_us == request.at_us)
    )
