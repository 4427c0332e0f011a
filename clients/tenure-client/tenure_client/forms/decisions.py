"""Answers that explain one instance, or list the newest decisions of a cloud."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.events import NoticeJson
from tenure_client.forms.forecasts import EvidenceAnswer
from tenure_client.forms.instances import NODES, AcceptableAnswer, ExtensionAnswer, InstanceAnswer, QuoteAnswer
from tenure_client.forms.nodes import ResourcesAnswer, VictimAnswer
from tenure_client.forms.peers import LinkRateAnswer
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
    """A decision on a start or on a longer lifetime, or an end of an instance."""

    seq: int
    at: Moment
    outcome: OutcomeWord
    id: str
    market: MarketWord
    flavor: str
    node: str | None
    reason: Annotated[ReasonWord | None, Meta(description="The reason of a rejection or an eviction.")]
    lifetime_s: Annotated[
        Seconds | None, Meta(description="The lifetime declared or asked for; of an end, the last promised.")
    ]
    quote: Annotated[
        QuoteAnswer | None,
        Meta(description="The figures that the decision on the start, or on the longer lifetime, rests on."),
    ]
    victims: Annotated[
        list[VictimAnswer], Meta(description="Instances evicted to make room for this start, youngest first.")
    ]
    ready_at: Annotated[
        Moment | None, Meta(description="The time from which the room is free; null unless this is an accepted start.")
    ]
    ran_s: Annotated[Seconds | None, Meta(description="The time that the instance ran; null for starts.")]
    cause_seq: Annotated[int | None, Meta(description="The event that the eviction made room for.")]
    cause_id: Annotated[str | None, Meta(description="The instance that this event started.")]
    promise: Annotated[PromiseWord, Meta(description="The effect of this event on the promise.")]
    sentence: Annotated[str, Meta(description="The decision in words.")]
    nodes: Annotated[list[str], Meta(description=NODES)] = field(default_factory=list)


class DecisionsAnswer(Answer, kw_only=True):
    decisions: Annotated[
        list[DecisionAnswer],
        Meta(description="Newest first. A page filtered by outcome or market may be short and still have a next one."),
    ]
    links: list[Link]


class PromiseAnswer(Answer, kw_only=True):
    """The promise to an instance, and its outcome."""

    status: PromiseWord
    eviction_probability: Annotated[
        float | None,
        Meta(
            description="The eviction probability promised; null: none. Where a book decides, it is that of all starts "
            "of the book together."
        ),
    ]
    until: Annotated[Moment | None, Meta(description="The end of the declared lifetime.")]


class VictimDetailAnswer(Answer, kw_only=True):
    id: str
    flavor: str
    resources: ResourcesAnswer
    node: str
    started_at: Moment
    ran_s: Annotated[Seconds, Meta(description="The age of the instance at its eviction.")]
    lifetime_s: Annotated[Seconds | None, Meta(description="The declared lifetime.")]
    overrunning: Annotated[
        bool, Meta(description="True if it was past its declared lifetime. Such instances are evicted first.")
    ]
    deadline: Annotated[
        Moment | None, Meta(description="The time until which it may go on running; null without a grace period.")
    ]
    promise: PromiseWord
    nodes: Annotated[list[str], Meta(description=NODES)] = field(default_factory=list)
    goes_first: Annotated[
        bool, Meta(description="True for room held for a peer: nothing was promised, so it goes before all others.")
    ] = False


class HeldRoomAnswer(Answer, kw_only=True):
    """The room that an instance stands for, held for an attempt of a peer's job."""

    peer: str
    job: str
    attempt: int
    until: Annotated[Moment, Meta(description="Until then the attempt may be awarded.")]
    stage_s: Annotated[Seconds, Meta(description="The time that its inputs have to come; 0: there are none.")]
    link: Annotated[
        LinkRateAnswer | None, Meta(description="By what knowledge of the link they got it; null: it was not known.")
    ]


class EvictionAnswer(Answer, kw_only=True):
    """The reasons of an eviction: the event it made room for, the room needed, and the other victims."""

    at: Moment
    reason: EvictionReasonWord
    cause_seq: Annotated[int, Meta(description="The event that the eviction made room for.")]
    cause_id: Annotated[str | None, Meta(description="The on-demand instance that this event started.")]
    flavor: Annotated[str | None, Meta(description="The flavor of that instance.")]
    required: Annotated[ResourcesAnswer | None, Meta(description="The room that it needed on one node.")]
    node: Annotated[str | None, Meta(description="The node that it was placed on.")]
    freed: Annotated[
        ResourcesAnswer | None, Meta(description="The resources of the victims on that node; null: too many victims.")
    ]
    eviction_policy: Annotated[EvictionPolicyWord, Meta(description="The rule by which victims were chosen.")]
    rank: Annotated[int | None, Meta(description="This instance's place among the victims; 1 went first.")]
    victim_count: int
    victims: Annotated[
        list[VictimDetailAnswer], Meta(description="Youngest first. The first 100, and always the instance itself.")
    ]


class ExplanationAnswer(Answer, kw_only=True):
    """The reasons for an instance's present state."""

    instance: InstanceAnswer
    sentences: Annotated[list[str], Meta(description="The explanation in words, one or two sentences for each step.")]
    as_of: Annotated[Moment, Meta(description="The time to which the explanation refers.")]
    required: Annotated[ResourcesAnswer, Meta(description="The resources that the flavor asks for.")]
    guarantee: Annotated[GuaranteeWord, Meta(description="The scope of the SLA when the start was decided.")]
    epoch_at: Annotated[
        Moment | None, Meta(description="The end of the history of the table that was read; null: none was.")
    ]
    confidence: Annotated[float, Meta(description="The policy's confidence, which the quote's bound has.")]
    evidence: Annotated[
        list[EvidenceAnswer],
        Meta(description="The samples that the quote rests on; empty: none, or their table is gone."),
    ]
    window_count: Annotated[
        int | None,
        Meta(description="So many samples are a declared lifetime apart; only these count for the bound."),
    ]
    promise: PromiseAnswer
    acceptable: AcceptableAnswer | None
    eviction: EvictionAnswer | None
    extensions: Annotated[
        list[ExtensionAnswer],
        Meta(description="The newest 20 decisions on a longer lifetime, in log order."),
    ] = field(default_factory=list)
    notices: Annotated[
        list[NoticeJson],
        Meta(description="The newest 20 notices of its risk and grace period, as events in log order."),
    ]
    room: Annotated[HeldRoomAnswer | None, Meta(description="Of held room: for whom; null: it is none.")] = None
