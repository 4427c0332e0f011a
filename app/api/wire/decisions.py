"""Decisions with their reasons: an instance explained, and the newest of a cloud."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.wire.events import NoticeAnswer
from app.api.wire.fields import Answer, Query, optional_seconds, seconds
from app.api.wire.instances import (
    AcceptableAnswer,
    InstanceAnswer,
    QuoteAnswer,
    acceptable_answer,
    instance_answer,
    quote_answer,
    ready_at,
    victim_answers,
)
from app.api.wire.nodes import ResourcesAnswer, VictimAnswer, resources_answer
from app.api.wire.paging import Limit, Link
from app.domain.events.wire import to_wire
from app.domain.times import to_datetime
from app.domain.values import EvictionPolicy, EvictionReason, Guarantee, Market, Rejection
from app.services.explanations import Decided, Eviction, Explanation, Outcome, Promise, Victim


class DecisionsQuery(Query):
    before_seq: Annotated[int, Field(ge=1, lt=1 << 63)] | None = Field(
        None, description="Only what stands before this event; by default up to now. The next page's link carries it."
    )
    limit: Limit = 100
    outcome: Outcome | None = None
    market: Market | None = None


@dataclass(slots=True, kw_only=True)
class DecisionAnswer(Answer):
    """A decision on a start, or an end of an instance."""

    seq: int
    at: datetime
    outcome: Outcome
    id: str
    market: Market
    flavor: str
    node: str | None
    reason: Annotated[Rejection | EvictionReason | None, Field(description="Why it was rejected or evicted.")]
    lifetime_s: Annotated[int | float | None, Field(description="As declared at its start.")]
    quote: Annotated[QuoteAnswer | None, Field(description="What the decision on its start rested on.")]
    victims: Annotated[list[VictimAnswer], Field(description="Evicted to make room for this start, youngest first.")]
    ready_at: Annotated[
        datetime | None, Field(description="From when its room is free; null of all but accepted starts.")
    ]
    ran_s: Annotated[int | float | None, Field(description="How long it ran; null of starts.")]
    cause_seq: Annotated[int | None, Field(description="The event that it was evicted for.")]
    cause_id: Annotated[str | None, Field(description="The instance that this event started.")]
    promise: Annotated[Promise, Field(description="What this event makes of the promise given.")]
    sentence: Annotated[str, Field(description="The same in words.")]


@dataclass(slots=True, kw_only=True)
class DecisionsAnswer(Answer):
    decisions: Annotated[
        list[DecisionAnswer],
        Field(description="Newest first. A page of one outcome or market may be short and still have a next."),
    ]
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class PromiseAnswer(Answer):
    """What a start was promised, and what became of it."""

    status: Promise
    eviction_probability: Annotated[float | None, Field(description="The most that was promised; null: nothing was.")]
    until: Annotated[datetime | None, Field(description="The end of the declared lifetime.")]


@dataclass(slots=True, kw_only=True)
class VictimDetailAnswer(Answer):
    id: str
    flavor: str
    resources: ResourcesAnswer
    node: str
    started_at: datetime
    ran_s: Annotated[int | float, Field(description="How old it was when it was evicted.")]
    lifetime_s: Annotated[int | float | None, Field(description="How long it had declared to run at most.")]
    overrunning: Annotated[bool, Field(description="Past its declared lifetime: then it goes before all others.")]
    deadline: Annotated[
        datetime | None, Field(description="Until when it may go on running; null where there is no grace period.")
    ]
    promise: Promise


@dataclass(slots=True, kw_only=True)
class EvictionAnswer(Answer):
    """Why an instance was evicted: for which event, what that needed, and who else had to go."""

    at: datetime
    reason: EvictionReason
    cause_seq: Annotated[int, Field(description="The event that it was evicted for.")]
    cause_id: Annotated[str | None, Field(description="The on-demand instance that this event started.")]
    flavor: Annotated[str | None, Field(description="Of that instance.")]
    required: Annotated[ResourcesAnswer | None, Field(description="What it needed on one node.")]
    node: Annotated[str | None, Field(description="Where it went.")]
    freed: Annotated[ResourcesAnswer | None, Field(description="What the victims on that node held; null: too many.")]
    eviction_policy: Annotated[EvictionPolicy, Field(description="The rule by which victims were chosen.")]
    rank: Annotated[int | None, Field(description="This instance's place among the victims; 1 is the youngest.")]
    victim_count: int
    victims: Annotated[
        list[VictimDetailAnswer], Field(description="Youngest first; the first 100, and always the instance itself.")
    ]


@dataclass(slots=True, kw_only=True)
class ExplanationAnswer(Answer):
    """Why an instance is what it is."""

    instance: InstanceAnswer
    sentences: Annotated[list[str], Field(description="The whole story in words, a sentence or two for each step.")]
    as_of: Annotated[datetime, Field(description="What became of it is told as of then.")]
    required: Annotated[ResourcesAnswer, Field(description="What instances of its flavor ask for.")]
    guarantee: Annotated[Guarantee, Field(description="How the SLA was read when its start was decided.")]
    epoch_at: Annotated[
        datetime | None, Field(description="The end of the history behind the table that was read; null: none was.")
    ]
    promise: PromiseAnswer
    acceptable: AcceptableAnswer | None
    eviction: EvictionAnswer | None
    notices: Annotated[
        list[NoticeAnswer],
        Field(description="The newest 20 of its risk and of its grace period, as events, in log order."),
    ]


def decision_answer(decided: Decided) -> DecisionAnswer:
    """The wire form of one decision."""
    return DecisionAnswer(
        seq=decided.seq,
        at=to_datetime(decided.at_us),
        outcome=decided.outcome,
        id=decided.instance_id,
        market=decided.market,
        flavor=decided.flavor,
        node=decided.node,
        reason=decided.reason,
        lifetime_s=optional_seconds(decided.lifetime_us),
        quote=quote_answer(decided.basis),
        victims=victim_answers(decided),
        ready_at=ready_at(decided) if decided.outcome is Outcome.ACCEPTED else None,
        ran_s=optional_seconds(decided.ran_us),
        cause_seq=decided.cause_seq,
        cause_id=decided.cause_id,
        promise=decided.promise,
        sentence=decided.sentence,
    )


def explanation_answer(found: Explanation) -> ExplanationAnswer:
    """The wire form of an explanation."""
    return ExplanationAnswer(
        instance=instance_answer(found.instance),
        sentences=list(found.sentences),
        as_of=to_datetime(found.as_of_us),
        required=resources_answer(found.required),
        guarantee=found.policy.guarantee,
        epoch_at=None if found.epoch_us is None else to_datetime(found.epoch_us),
        promise=_promise(found),
        acceptable=acceptable_answer(found.instance.decision),
        eviction=None if found.eviction is None else _eviction(found.eviction),
        notices=[to_wire(notice) for notice in found.notices],
    )


def _promise(found: Explanation) -> PromiseAnswer:
    decision = found.instance.decision
    given = found.promise is not Promise.NONE and decision.basis is not None
    return PromiseAnswer(
        status=found.promise,
        eviction_probability=decision.basis.probability if given and decision.basis else None,
        until=to_datetime(decision.at_us + decision.lifetime_us)
        if given and decision.lifetime_us is not None
        else None,
    )


def _eviction(eviction: Eviction) -> EvictionAnswer:
    start, removal = eviction.start, eviction.removal
    return EvictionAnswer(
        at=to_datetime(eviction.at_us),
        reason=eviction.reason,
        cause_seq=eviction.cause_seq,
        cause_id=start.instance_id if start else None,
        flavor=start.flavor if start else None,
        required=resources_answer(eviction.required) if eviction.required else None,
        node=start.node if start else removal.node if removal else None,
        freed=resources_answer(eviction.freed) if eviction.freed else None,
        eviction_policy=eviction.policy,
        rank=eviction.rank,
        victim_count=eviction.victim_count,
        victims=[_victim(victim) for victim in eviction.victims],
    )


def _victim(victim: Victim) -> VictimDetailAnswer:
    return VictimDetailAnswer(
        id=victim.instance_id,
        flavor=victim.flavor,
        resources=resources_answer(victim.resources),
        node=victim.node,
        started_at=to_datetime(victim.started_us),
        ran_s=seconds(victim.age_us),
        lifetime_s=optional_seconds(victim.lifetime_us),
        overrunning=victim.is_overrunning,
        deadline=None if victim.deadline_us is None else to_datetime(victim.deadline_us),
        promise=victim.promise,
    )
