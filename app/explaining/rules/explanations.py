"""Values that explain decisions. `explaining.service` gathers them from the log, `sentences` puts them into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.events import (
    EvictionConfirmed,
    EvictionRisk,
    EvictionScheduled,
    InstanceMoved,
    InstanceStarted,
    NodeRemoved,
    NodeResized,
    Recorded,
    RoomHeld,
)
from app.domain.values import (
    Acceptable,
    Basis,
    DecisionOutcome,
    EvictionPolicy,
    EvictionReason,
    InstanceStatus,
    Market,
    Policy,
    Rejection,
    Resources,
    RiskLevel,
)
from app.domain.wanted import Wanted
from app.forecasts.rules import Evidence
from app.judging.attainment import Attainment
from app.judging.reliability import PromiseEnd, fate_of
from app.scheduling.rules.instances import End, Instance, never_ran


class PromiseStatus(StrEnum):
    """The outcome of the promise to an instance; `none` if its start was given no promise."""

    NONE = "none"
    OPEN = "open"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision of the log: on a start, or the end of an instance. `sentence` tells it in words.

    `lifetime_us`, `node` and `basis` belong to the start, or to the extension; of an end, `lifetime_us` is the last
    one. `ran_us` is how long an instance had run. `deadline_us` is the deadline of the victims. `ready_us` is the time
    from which the room of an accepted start is free. `cause_seq` is the event that an eviction made room for, and
    `cause_id` the instance that this event started, if any.
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
    nodes: tuple[str, ...] = ()
    """Of an accepted group, the nodes of its members."""
    removed: str | None = None
    """The node whose removal evicted the instance."""
    names_nodes: bool = False
    """True for a start that might take certain nodes only."""
    wanted: Wanted | None = None
    """Of a start that takes what it can be promised. `lifetime_us` is what it got, or the least that it takes."""

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node or "",)


@dataclass(frozen=True, slots=True)
class Grace:
    """The deadline of an evicted instance, and the time at which a controller confirmed that it is stopped, if any."""

    deadline_us: int
    confirmed_us: int | None

    def is_overdue(self, now_us: int) -> bool:
        """True if the deadline has passed and no controller has confirmed the stop."""
        return self.confirmed_us is None and self.deadline_us <= now_us


@dataclass(frozen=True, slots=True)
class Victim:
    """A spot instance that was evicted for a start. `age_us` is how long it had run by then.

    `deadline_us` is the time until which it may go on running; None without a grace period.
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
    nodes: tuple[str, ...] = ()
    """Of a group, the nodes of its members; `resources` are those of one member."""
    goes_first: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node,)

    @property
    def is_overrunning(self) -> bool:
        """True if it ran past its declared lifetime. It then counted as younger than all that had not."""
        return not self.goes_first and self.lifetime_us is not None and self.age_us > self.lifetime_us


@dataclass(frozen=True, slots=True)
class EvictionExplained:
    """The reason for an eviction: the event that needed the room, how much it needed, and the other victims.

    `rank` is the instance's place among all `victim_count` victims; 1 goes first. `victims` holds the first of
    them, in this order, and always the instance itself. `freed` is the sum of what the victims on the start's node
    held; it is None if `victims` does not hold all of them. A change of a node or an observed
    move, which is the `removal`, has neither a start nor victims of its own.
    """

    at_us: int
    reason: EvictionReason
    cause_seq: int
    start: InstanceStarted | None
    removal: NodeRemoved | NodeResized | InstanceMoved | None
    required: Resources | None
    policy: EvictionPolicy
    victims: tuple[Victim, ...]
    victim_count: int
    rank: int | None
    freed: Resources | None


@dataclass(frozen=True, slots=True)
class Ground:
    """The table that a decision read, as far as the decision rested on it. `epoch_us` is the end of its history.

    `evidence` holds the samples at the decision's slots, or the nearest ones. `window_count` tells how many of them are
    a declared lifetime apart: only those are independent, and only they count for the bound. The calibrated forecast
    has no samples; its windows are the declared lifetimes, of at least six hours, that the history holds, and
    `start_count` past starts were followed to their ends to learn its level. In the bound `design_effect` windows count
    as one; 0 if the table does not tell.
    """

    epoch_us: int
    evidence: tuple[Evidence, ...]
    window_count: int
    start_count: int = 0
    design_effect: int = 0


@dataclass(frozen=True, slots=True)
class Explanation:
    """The story of an instance as of `as_of_us`. `sentences` tell it in words.

    `policy` was in force when the start was decided. `ground` is None if the decision read no table, or if that table
    is gone. `created_us` is the time at which the cloud's log begins. `notices` are the newest notices of the instance,
    in log order; `grace` is what they say of its eviction. `extensions` are the newest decisions on a longer lifetime,
    and `moves` the newest moves. `room` is the room that it stands for, held for a peer. `standing` is the present
    standing of all with the same promise, if it was broken.
    """

    instance: Instance
    required: Resources
    policy: Policy
    created_us: int
    as_of_us: int
    ground: Ground | None
    promise: PromiseStatus
    acceptable: Acceptable | None
    eviction: EvictionExplained | None
    notices: tuple[Recorded, ...]
    extensions: tuple[Recorded, ...]
    grace: Grace | None
    standing: Attainment | None = None
    moves: tuple[Recorded, ...] = ()
    room: RoomHeld | None = None
    sentences: tuple[str, ...] = ()

    @property
    def is_overrunning(self) -> bool:
        """True if the instance is spot and runs on after its declared lifetime."""
        decision = self.instance.decision
        lifetime_us = self.instance.lifetime_us
        if decision.market is not Market.SPOT or lifetime_us is None:
            return False
        is_running = self.instance.status is InstanceStatus.RUNNING
        return is_running and self.as_of_us > decision.at_us + lifetime_us

    @property
    def is_at_risk(self) -> bool:
        """True if the instance runs and its last notice of risk says that it passed the threshold."""
        told = [item.event for item in self.notices if isinstance(item.event, EvictionRisk)]
        return self.instance.status is InstanceStatus.RUNNING and bool(told) and told[-1].level is RiskLevel.RAISED


def promise_of(start: InstanceStarted, end: End | None, now_us: int) -> PromiseStatus:
    """Return what became of an instance's promise by `now_us`, given its end; None while the instance runs.

    `start` is for the lifetime that was promised last.
    """
    if never_ran(end):
        return PromiseStatus.NONE
    fate = fate_of(start, end, now_us)
    if fate.promised is None:
        return PromiseStatus.NONE
    return {
        PromiseEnd.OPEN: PromiseStatus.OPEN,
        PromiseEnd.KEPT: PromiseStatus.KEPT,
        PromiseEnd.EVICTED: PromiseStatus.BROKEN,
    }[fate.end]


def grace_in(notices: Sequence[Recorded]) -> Grace | None:
    """Return what the notices say of an eviction; None if there was no grace period or no eviction."""
    deadlines = [item.event.deadline_us for item in notices if isinstance(item.event, EvictionScheduled)]
    confirmed = [item.event.at_us for item in notices if isinstance(item.event, EvictionConfirmed)]
    return Grace(deadlines[-1], confirmed[-1] if confirmed else None) if deadlines else None
