"""Notices: events that report on an instance and change no decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.values import AfterPromise, EvictionReason, ProposedMove, Rejection, RiskLevel


@event("eviction_scheduled", subject="instance_id", group=Group.NOTICE, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionScheduled:
    """The instance will be evicted by one of the next events, and under the grace period may run until its deadline."""

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int = field(metadata={"description": "The event that it makes room for, which follows."})
    deadline_us: int = field(metadata={"description": "Until when it may go on running."})


@event("eviction_confirmed", subject="instance_id", group=Group.NOTICE, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionConfirmed:
    """The controller has stopped an instance that was evicted."""

    at_us: int
    instance_id: str


@event("eviction_overdue", subject="instance_id", group=Group.NOTICE, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionOverdue:
    """The deadline of an eviction has passed and no controller has confirmed the stop."""

    at_us: int
    instance_id: str
    deadline_us: int = field(metadata={"description": "When it should have been stopped."})


@event("eviction_risk", subject="instance_id", group=Group.NOTICE, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRisk:
    """The eviction risk of a running spot instance in its remaining lifetime crossed the threshold, up or down.

    It is told again while it is above, if there are moves that were not told before.

    `probability` is what the table of `epoch` gives for that lifetime at `slots`, the slots as the instance sees them;
    `probability_bound` is its upper bound at the policy's confidence, and `windows` the evidence for both.
    """

    at_us: int
    instance_id: str
    level: RiskLevel
    probability: float = field(metadata={"description": "Within the rest of its declared lifetime."})
    threshold: float
    epoch: int
    slots: int = field(metadata={"description": "As the instance sees them."})
    probability_bound: float | None = field(
        default=None, metadata={"since": 5, "only_tells": True, "description": "With the policy's confidence."}
    )
    windows: float | None = field(
        default=None, metadata={"since": 5, "only_tells": True, "description": "The evidence that the estimate has."}
    )
    moves: tuple[ProposedMove, ...] = field(
        default=(),
        metadata={
            "since": 5,
            "only_tells": True,
            "description": "Carried out in this order, they keep the next start that would evict it from doing so.",
        },
    )


@event("promise_ending", since=5, subject="instance_id", group=Group.ENDING, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseEnding:
    """A running spot instance wants a longer lifetime, and it can be promised no more: the promise ends as it stands.

    `reason` is why a longer one was refused; None: the gain was too small to tell of, or it is as far ahead as is
    promised.
    """

    at_us: int
    instance_id: str
    lifetime_us: int = field(metadata={"description": "The lifetime that it is promised, counted from its start."})
    deadline_us: int = field(metadata={"description": "When the promise ends."})
    reason: Rejection | None = field(default=None, metadata={"description": "Why it is not promised a longer one."})
    afterwards: AfterPromise = field(
        default=AfterPromise.DISPLACED_FIRST, metadata={"description": "What becomes of it if it runs on."}
    )


Notice = EvictionScheduled | EvictionConfirmed | EvictionOverdue | EvictionRisk | PromiseEnding
