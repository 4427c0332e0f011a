"""What is told of decisions, as values. `explaining` gathers them from the log, `sentences` puts them into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.admission.reliability import PromiseEnd, fate_of
from app.domain.events import (
    EvictionConfirmed,
    EvictionRisk,
    EvictionScheduled,
    InstanceStarted,
    NodeRemoved,
    Recorded,
)
from app.domain.values import Basis, EvictionPolicy, EvictionReason, Market, Policy, Rejection, Resources, RiskLevel
from app.scheduling.rules.acceptable import Acceptable
from app.scheduling.rules.instances import End, Instance, InstanceStatus


class DecisionOutcome(StrEnum):
    """What was decided."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    STOPPED = "stopped"
    EVICTED = "evicted"


class PromiseStatus(StrEnum):
    """What became of the promise that a start was given; `none` where it was given none."""

    NONE = "none"
    OPEN = "open"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision of the log: of a start, or an end. `sentence` tells it in words.

    `lifetime_us`, `node` and `basis` are the start's; `ran_us` is how long an instance ran that ended. `deadline_us` is
    that of the victims, `ready_us` says from when the room of an accepted start is free, as its event does.
    `cause_seq` is the event that an eviction made room for, `cause_id` the instance that this event started, if it did.
    """

    seq: int
    at_us: int
    outcome: DecisionOutcome
    instance_id: str
    market: Market
    flavor: str
    node: str | None
    reason: Rejection | EvictionReason | None
    lifetime_us: int | None
    basis: Basis | None
    victims: tuple[str, ...]
    deadline_us: int | None
    ready_us: int | None
    ran_us: int | None
    cause_seq: int | None
    cause_id: str | None
    promise: PromiseStatus
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Grace:
    """Until when an evicted instance may go on running, and when a controller said that it is stopped, if one did."""

    deadline_us: int
    confirmed_us: int | None

    def is_overdue(self, now_us: int) -> bool:
        """Whether the deadline has passed and nobody has said so yet."""
        return self.confirmed_us is None and self.deadline_us <= now_us


@dataclass(frozen=True, slots=True)
class Victim:
    """A spot instance that was evicted for some start; `age_us` is how long it had run by then.

    `deadline_us` is until when it may go on running, None where there is no grace period.
    """

    instance_id: str
    flavor: str
    resources: Resources
    node: str
    started_us: int
    age_us: int
    lifetime_us: int | None
    deadline_us: int | None
    promise: PromiseStatus

    @property
    def is_overrunning(self) -> bool:
        """Whether it ran past its declared lifetime, and so counted as younger than all that did not."""
        return self.lifetime_us is not None and self.age_us > self.lifetime_us


@dataclass(frozen=True, slots=True)
class EvictionExplained:
    """Why an instance was evicted: the event that its room was for, what that needed, and who else had to go.

    `rank` is the instance's place among all `victim_count` victims, 1 for the youngest; `victims` holds the first of
    them, youngest first, and always the instance itself. `freed` is what all of those on the start's node held; it is
    None where the victims are not all in `victims`. A removed node has neither start nor victims of its own.
    """

    at_us: int
    reason: EvictionReason
    cause_seq: int
    start: InstanceStarted | None
    removal: NodeRemoved | None
    required: Resources | None
    policy: EvictionPolicy
    victims: tuple[Victim, ...]
    victim_count: int
    rank: int | None
    freed: Resources | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an instance is what it is, as of `as_of_us`; `sentences` tell it in words.

    `policy` was in force when its start was decided. `epoch_us` is the end of the history behind the table that the
    decision read, None where it read none. `created_us` is when the cloud's log begins. `notices` are the newest that
    concern it, in log order; `grace` is what they say of its eviction.
    """

    instance: Instance
    required: Resources
    policy: Policy
    created_us: int
    as_of_us: int
    epoch_us: int | None
    promise: PromiseStatus
    acceptable: Acceptable | None
    eviction: EvictionExplained | None
    notices: tuple[Recorded, ...]
    grace: Grace | None
    sentences: tuple[str, ...] = ()

    @property
    def is_at_risk(self) -> bool:
        """Whether it runs, and the last that was told of its risk is that it passed the threshold."""
        told = [item.event for item in self.notices if isinstance(item.event, EvictionRisk)]
        return self.instance.status is InstanceStatus.RUNNING and bool(told) and told[-1].level is RiskLevel.RAISED


def promise_of(start: InstanceStarted, end: End | None, now_us: int) -> PromiseStatus:
    """What became by `now_us` of the promise of an instance that ended so; None where it still runs."""
    fate = fate_of(start, end, now_us)
    if fate.promised is None:
        return PromiseStatus.NONE
    return {
        PromiseEnd.OPEN: PromiseStatus.OPEN,
        PromiseEnd.KEPT: PromiseStatus.KEPT,
        PromiseEnd.EVICTED: PromiseStatus.BROKEN,
    }[fate.end]


def grace_in(notices: Sequence[Recorded]) -> Grace | None:
    """What an instance's notices say of its eviction; None where it has no grace period, or was not evicted."""
    deadlines = [item.event.deadline_us for item in notices if isinstance(item.event, EvictionScheduled)]
    confirmed = [item.event.at_us for item in notices if isinstance(item.event, EvictionConfirmed)]
    return Grace(deadlines[-1], confirmed[-1] if confirmed else None) if deadlines else None
