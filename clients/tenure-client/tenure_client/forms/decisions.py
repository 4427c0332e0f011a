"""Answers that explain one instance, or list the newest decisions of a cloud."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.events import NoticeJson
from tenure_client.forms.instances import AcceptableAnswer, InstanceAnswer, QuoteAnswer
from tenure_client.forms.nodes import ResourcesAnswer, VictimAnswer
from tenure_client.forms.words import (
    EvictionPolicyWord,
    EvictionReasonWord,
    GuaranteeWord,
    MarketWord,
    OutcomeWord,
    PromiseWord,
    ReasonWord,
)


class DecisionAnswer(Answer, kw_only=True):
    """A decision on a start, or an end of an instance."""

    seq: int
    at: Moment
    outcome: OutcomeWord
    id: str
    market: MarketWord
    flavor: str
    node: str | None
    reason: Annotated[ReasonWord | None, Meta(description="Why it was rejected or evicted.")]
    lifetime_s: Annotated[Seconds | None, Meta(description="As declared at its start.")]
    quote: Annotated[QuoteAnswer | None, Meta(description="What the decision on its start rested on.")]
    victims: Annotated[list[VictimAnswer], Meta(description="Evicted to make room for this start, youngest first.")]
    ready_at: Annotated[Moment | None, Meta(description="From when its room is free; null of all but accepted starts.")]
    ran_s: Annotated[Seconds | None, Meta(description="How long it ran; null of starts.")]
    cause_seq: Annotated[int | None, Meta(description="The event that it was evicted for.")]
    cause_id: Annotated[str | None, Meta(description="The instance that this event started.")]
    promise: Annotated[PromiseWord, Meta(description="What this event makes of the promise given.")]
    sentence: Annotated[str, Meta(description="The same in words.")]


class DecisionsAnswer(Answer, kw_only=True):
    decisions: Annotated[
        list[DecisionAnswer],
        Meta(description="Newest first. A page of one outcome or market may be short and still have a next."),
    ]
    links: list[Link]


class PromiseAnswer(Answer, kw_only=True):
    """The promise to an instance, and its outcome."""

    status: PromiseWord
    eviction_probability: Annotated[float | None, Meta(description="The most that was promised; null: nothing was.")]
    until: Annotated[Moment | None, Meta(description="The end of the declared lifetime.")]


class VictimDetailAnswer(Answer, kw_only=True):
    id: str
    flavor: str
    resources: ResourcesAnswer
    node: str
    started_at: Moment
    ran_s: Annotated[Seconds, Meta(description="How old it was when it was evicted.")]
    lifetime_s: Annotated[Seconds | None, Meta(description="How long it had declared to run at most.")]
    overrunning: Annotated[bool, Meta(description="Past its declared lifetime: then it goes before all others.")]
    deadline: Annotated[
        Moment | None, Meta(description="Until when it may go on running; null where there is no grace period.")
    ]
    promise: PromiseWord


class EvictionAnswer(Answer, kw_only=True):
    """The reasons of an eviction: the event it made room for, the room needed, and the other victims."""

    at: Moment
    reason: EvictionReasonWord
    cause_seq: Annotated[int, Meta(description="The event that it was evicted for.")]
    cause_id: Annotated[str | None, Meta(description="The on-demand instance that this event started.")]
    flavor: Annotated[str | None, Meta(description="Of that instance.")]
    required: Annotated[ResourcesAnswer | None, Meta(description="What it needed on one node.")]
    node: Annotated[str | None, Meta(description="Where it went.")]
    freed: Annotated[ResourcesAnswer | None, Meta(description="What the victims on that node held; null: too many.")]
    eviction_policy: Annotated[EvictionPolicyWord, Meta(description="The rule by which victims were chosen.")]
    rank: Annotated[int | None, Meta(description="This instance's place among the victims; 1 is the youngest.")]
    victim_count: int
    victims: Annotated[
        list[VictimDetailAnswer], Meta(description="Youngest first; the first 100, and always the instance itself.")
    ]


class ExplanationAnswer(Answer, kw_only=True):
    """The reasons for an instance's present state."""

    instance: InstanceAnswer
    sentences: Annotated[list[str], Meta(description="The whole story in words, a sentence or two for each step.")]
    as_of: Annotated[Moment, Meta(description="What became of it is told as of then.")]
    required: Annotated[ResourcesAnswer, Meta(description="What instances of its flavor ask for.")]
    guarantee: Annotated[GuaranteeWord, Meta(description="How the SLA was read when its start was decided.")]
    epoch_at: Annotated[
        Moment | None, Meta(description="The end of the history behind the table that was read; null: none was.")
    ]
    promise: PromiseAnswer
    acceptable: AcceptableAnswer | None
    eviction: EvictionAnswer | None
    notices: Annotated[
        list[NoticeJson],
        Meta(description="The newest 20 of its risk and of its grace period, as events, in log order."),
    ]
