"""The event log as a feed: one schema for each kind of event."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from fastapi.sse import format_sse_event
from pydantic import Field, TypeAdapter

from app.api.wire.clouds import PolicyAnswer, policy_answer
from app.api.wire.fields import Answer, Query, optional_seconds
from app.api.wire.instances import QuoteAnswer, quote_answer, ready_at, victim_answers
from app.api.wire.nodes import ResourcesAnswer, VictimAnswer, resources_answer
from app.api.wire.paging import Limit, Link
from app.domain import events
from app.domain.times import to_datetime
from app.domain.values import EvictionReason, Market, Rejection, RiskLevel


class EventsQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows.")] = 0
    limit: Limit = 100


class StreamQuery(Query):
    after_seq: Annotated[
        int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows; Last-Event-ID counts for more.")
    ] = 0
    limit: Annotated[int, Field(ge=1, lt=1 << 31)] | None = Field(
        None, description="End the stream after so many events; without it, it goes on."
    )


@dataclass(slots=True, kw_only=True)
class EventAnswer(Answer):
    seq: int
    at: datetime


@dataclass(slots=True, kw_only=True)
class CloudCreatedAnswer(EventAnswer):
    kind: Literal["cloud_created"] = "cloud_created"
    policy: PolicyAnswer


@dataclass(slots=True, kw_only=True)
class PolicyChangedAnswer(EventAnswer):
    kind: Literal["policy_changed"] = "policy_changed"
    policy: PolicyAnswer


@dataclass(slots=True, kw_only=True)
class NodeAddedAnswer(EventAnswer):
    kind: Literal["node_added"] = "node_added"
    node: str
    capacity: ResourcesAnswer


@dataclass(slots=True, kw_only=True)
class NodeDrainedAnswer(EventAnswer):
    kind: Literal["node_drained"] = "node_drained"
    node: str


@dataclass(slots=True, kw_only=True)
class NodeOpenedAnswer(EventAnswer):
    kind: Literal["node_opened"] = "node_opened"
    node: str


@dataclass(slots=True, kw_only=True)
class NodeRemovedAnswer(EventAnswer):
    kind: Literal["node_removed"] = "node_removed"
    node: str


@dataclass(slots=True, kw_only=True)
class FlavorAddedAnswer(EventAnswer):
    kind: Literal["flavor_added"] = "flavor_added"
    flavor: str
    demand: ResourcesAnswer


@dataclass(slots=True, kw_only=True)
class InstanceStartedAnswer(EventAnswer):
    kind: Literal["instance_started"] = "instance_started"
    id: str
    market: Market
    flavor: str
    lifetime_s: int | float | None
    eviction_probability: float | None
    node: str
    victims: list[VictimAnswer]
    ready_at: datetime
    quote: QuoteAnswer | None


@dataclass(slots=True, kw_only=True)
class InstanceRejectedAnswer(EventAnswer):
    kind: Literal["instance_rejected"] = "instance_rejected"
    id: str
    market: Market
    flavor: str
    lifetime_s: int | float | None
    eviction_probability: float | None
    reason: Rejection
    quote: QuoteAnswer | None


@dataclass(slots=True, kw_only=True)
class InstanceStoppedAnswer(EventAnswer):
    kind: Literal["instance_stopped"] = "instance_stopped"
    id: str


@dataclass(slots=True, kw_only=True)
class InstanceEvictedAnswer(EventAnswer):
    kind: Literal["instance_evicted"] = "instance_evicted"
    id: str
    reason: EvictionReason
    cause_seq: Annotated[int, Field(description="The event that it made room for, which follows; a drill's own.")]


@dataclass(slots=True, kw_only=True)
class EvictionScheduledAnswer(EventAnswer):
    kind: Literal["eviction_scheduled"] = "eviction_scheduled"
    id: str
    reason: EvictionReason
    cause_seq: Annotated[int, Field(description="The event that it makes room for, which follows.")]
    deadline: Annotated[datetime, Field(description="Until when it may go on running.")]


@dataclass(slots=True, kw_only=True)
class EvictionConfirmedAnswer(EventAnswer):
    kind: Literal["eviction_confirmed"] = "eviction_confirmed"
    id: str


@dataclass(slots=True, kw_only=True)
class EvictionOverdueAnswer(EventAnswer):
    kind: Literal["eviction_overdue"] = "eviction_overdue"
    id: str
    deadline: Annotated[datetime, Field(description="When it should have been stopped.")]


@dataclass(slots=True, kw_only=True)
class EvictionRiskAnswer(EventAnswer):
    kind: Literal["eviction_risk"] = "eviction_risk"
    id: str
    level: RiskLevel
    eviction_probability: Annotated[float, Field(description="Within the rest of its declared lifetime.")]
    threshold: float
    epoch: int
    slots: Annotated[int, Field(description="As the instance sees them.")]


NoticeAnswer = Annotated[
    EvictionScheduledAnswer | EvictionConfirmedAnswer | EvictionOverdueAnswer | EvictionRiskAnswer,
    Field(discriminator="kind"),
]
AnyEventAnswer = Annotated[
    CloudCreatedAnswer
    | PolicyChangedAnswer
    | NodeAddedAnswer
    | NodeDrainedAnswer
    | NodeOpenedAnswer
    | NodeRemovedAnswer
    | FlavorAddedAnswer
    | InstanceStartedAnswer
    | InstanceRejectedAnswer
    | InstanceStoppedAnswer
    | InstanceEvictedAnswer
    | EvictionScheduledAnswer
    | EvictionConfirmedAnswer
    | EvictionOverdueAnswer
    | EvictionRiskAnswer,
    Field(discriminator="kind"),
]


_EVENT: TypeAdapter[AnyEventAnswer] = TypeAdapter(AnyEventAnswer)


@dataclass(slots=True, kw_only=True)
class EventsAnswer(Answer):
    events: Annotated[list[AnyEventAnswer], Field(description="In log order.")]
    links: list[Link]


def event_answer(recorded: events.Recorded) -> AnyEventAnswer:
    """The wire form of an event at its place in the log."""
    seq, event = recorded.seq, recorded.event
    at = to_datetime(event.at_us)
    match event:
        case events.CloudCreated():
            return CloudCreatedAnswer(seq=seq, at=at, policy=policy_answer(event.policy))
        case events.PolicyChanged():
            return PolicyChangedAnswer(seq=seq, at=at, policy=policy_answer(event.policy))
        case events.NodeAdded():
            return NodeAddedAnswer(seq=seq, at=at, node=event.node, capacity=resources_answer(event.capacity))
        case events.NodeDrained():
            return NodeDrainedAnswer(seq=seq, at=at, node=event.node)
        case events.NodeOpened():
            return NodeOpenedAnswer(seq=seq, at=at, node=event.node)
        case events.NodeRemoved():
            return NodeRemovedAnswer(seq=seq, at=at, node=event.node)
        case events.FlavorAdded():
            return FlavorAddedAnswer(seq=seq, at=at, flavor=event.flavor, demand=resources_answer(event.demand))
        case events.InstanceStopped():
            return InstanceStoppedAnswer(seq=seq, at=at, id=event.instance_id)
        case events.InstanceEvicted():
            return InstanceEvictedAnswer(
                seq=seq, at=at, id=event.instance_id, reason=event.reason, cause_seq=event.cause_seq
            )
        case events.EvictionScheduled() | events.EvictionConfirmed() | events.EvictionOverdue() | events.EvictionRisk():
            return notice_answer(recorded)
        case events.InstanceStarted():
            return _started(seq, at, event)
        case events.InstanceRejected():
            return _rejected(seq, at, event)


def _started(seq: int, at: datetime, event: events.InstanceStarted) -> InstanceStartedAnswer:
    return InstanceStartedAnswer(
        seq=seq,
        at=at,
        id=event.instance_id,
        market=event.market,
        flavor=event.flavor,
        lifetime_s=optional_seconds(event.lifetime_us),
        eviction_probability=event.probability,
        node=event.node,
        victims=victim_answers(event),
        ready_at=ready_at(event),
        quote=quote_answer(event.basis),
    )


def _rejected(seq: int, at: datetime, event: events.InstanceRejected) -> InstanceRejectedAnswer:
    return InstanceRejectedAnswer(
        seq=seq,
        at=at,
        id=event.instance_id,
        market=event.market,
        flavor=event.flavor,
        lifetime_s=optional_seconds(event.lifetime_us),
        eviction_probability=event.probability,
        reason=event.reason,
        quote=quote_answer(event.basis),
    )


def notice_answer(recorded: events.Recorded) -> NoticeAnswer:
    """The wire form of a notice at its place in the log."""
    seq, event = recorded.seq, recorded.event
    at = to_datetime(event.at_us)
    assert isinstance(event, events.Notice)
    match event:
        case events.EvictionScheduled():
            return EvictionScheduledAnswer(
                seq=seq,
                at=at,
                id=event.instance_id,
                reason=event.reason,
                cause_seq=event.cause_seq,
                deadline=to_datetime(event.deadline_us),
            )
        case events.EvictionConfirmed():
            return EvictionConfirmedAnswer(seq=seq, at=at, id=event.instance_id)
        case events.EvictionOverdue():
            return EvictionOverdueAnswer(seq=seq, at=at, id=event.instance_id, deadline=to_datetime(event.deadline_us))
        case events.EvictionRisk():
            return EvictionRiskAnswer(
                seq=seq,
                at=at,
                id=event.instance_id,
                level=event.level,
                eviction_probability=event.probability,
                threshold=event.threshold,
                epoch=event.epoch,
                slots=event.slots,
            )


def event_json(recorded: events.Recorded) -> bytes:
    """The event as JSON, just as it stands in a page of the log."""
    return _EVENT.dump_json(event_answer(recorded))


def event_frame(recorded: events.Recorded) -> bytes:
    """The event as a server-sent event: its seq is the id, its kind the name."""
    answer = event_answer(recorded)
    return format_sse_event(data_str=_EVENT.dump_json(answer).decode(), event=answer.kind, id=str(answer.seq))
