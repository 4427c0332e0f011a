"""Starts, stops and what became of instances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from app.api.wire.errors import ErrorAnswer
from app.api.wire.fields import AT, Answer, Body, Name, Probability, Query, Seconds, Time, optional_seconds
from app.api.wire.nodes import VictimAnswer
from app.api.wire.paging import Link, PageQuery
from app.domain.events import InstanceEvicted, InstanceRejected, InstanceStarted, InstanceStopped, StartDecision
from app.domain.requests import Operation, StartRequest, StopRequest
from app.domain.times import to_datetime
from app.domain.values import Basis, Budget, EvictionReason, Market, Rejection
from app.services.explanations import Decided, acceptable_instead
from app.services.instances import Instance, InstanceStatus

BATCH_MAX = 1000


class StartBody(Body):
    """A start."""

    instance_id: Name = Field(alias="id", description="The caller's own id. The same body again has the same answer.")
    market: Market
    flavor: Name
    lifetime_us: Seconds | None = Field(
        None, alias="lifetime_s", description="How long it will run at most; a spot start must declare it."
    )
    eviction_probability: Probability | None = Field(
        None, description="The SLA of this start, in place of the cloud's; spot only."
    )
    at_us: Time | None = Field(None, alias="at", description=AT)

    def request(self) -> StartRequest:
        return StartRequest(
            self.instance_id, self.market, self.flavor, self.lifetime_us, self.eviction_probability, self.at_us
        )


class StopBody(Body):
    """A stop in a batch."""

    instance_id: Name = Field(alias="id")
    at_us: Time | None = Field(None, alias="at", description=AT)

    def request(self) -> StopRequest:
        return StopRequest(self.instance_id, self.at_us)


def _one_property(schema: dict[str, Any]) -> None:
    """Say in the schema what `_one_of_both` checks."""
    schema |= {"minProperties": 1, "maxProperties": 1}
    for name, field in schema["properties"].items():
        schema["properties"][name] = field["anyOf"][0]


class OperationBody(Body):
    """One start or one stop."""

    model_config = ConfigDict(json_schema_extra=_one_property)

    start: StartBody | None = None
    stop: StopBody | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len(self.model_fields_set) != 1 or (self.start is None) == (self.stop is None):
            raise PydanticCustomError("operation", "must have either a start or a stop")
        return self

    def request(self) -> Operation:
        chosen = self.start or self.stop
        assert chosen is not None
        return chosen.request()


class BatchBody(Body):
    operations: Annotated[list[OperationBody], Field(min_length=1, max_length=BATCH_MAX)] = Field(
        description="Decided in this order; one that fails does not keep the others from their answers."
    )


class DrillBody(Body):
    """Whom to evict in a drill."""

    instance_id: Name | None = Field(
        None, alias="instance", description="A running spot instance; by default the one that was started last."
    )
    at_us: Time | None = Field(None, alias="at", description=AT)


@dataclass(slots=True, kw_only=True)
class DrillAnswer(Answer):
    """Who was evicted in a drill."""

    id: str
    seq: Annotated[int, Field(description="Where the eviction stands in the event log.")]
    at: datetime


class Verdict(StrEnum):
    """What a start was answered."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(slots=True, kw_only=True)
class BudgetAnswer(Answer):
    """The eviction budget of all that are promised one eviction probability, as a decision found it."""

    earned: Annotated[float, Field(description="What they may lose once the instance is admitted.")]
    evicted: Annotated[int, Field(description="What they have lost.")]
    committed: Annotated[float, Field(description="What those that run are charged for what they may cost.")]
    charge: Annotated[float, Field(description="What the instance itself is charged.")]
    risk: Annotated[float, Field(description="How likely the instance is evicted at all.")]
    affordable_lifetime_s: Annotated[
        int | float | None, Field(description="Where it is rejected: the longest lifetime that would not be.")
    ]


@dataclass(slots=True, kw_only=True)
class QuoteAnswer(Answer):
    """What the decision on a spot start rested on."""

    epoch: Annotated[int | None, Field(description="The quantile table; null where none was read.")]
    slots: Annotated[int, Field(description="Available slots of the flavor just before the decision.")]
    eviction_probability: Annotated[
        float | None, Field(description="The SLA of this start; null where the cloud has none.")
    ]
    lifetime_s: Annotated[
        int | float | None, Field(description="The lifetime that the table guarantees at that probability.")
    ]
    estimated_eviction_probability: Annotated[
        float | None, Field(description="The eviction probability that the table gives the declared lifetime.")
    ]
    eviction_probability_bound: Annotated[
        float | None, Field(description="What that probability is below, with the policy's confidence.")
    ]
    budget: Annotated[BudgetAnswer | None, Field(description="Under the pooled guarantee only.")]


@dataclass(slots=True, kw_only=True)
class AcceptableAnswer(Answer):
    """What would have been accepted in place of a spot start that the SLA refused: either of both."""

    lifetime_s: Annotated[int | float | None, Field(description="The longest lifetime at this SLA; null: none.")]
    eviction_probability: Annotated[
        float | None, Field(description="The smallest SLA for this lifetime; null: none below 1.")
    ]


@dataclass(slots=True, kw_only=True)
class StartAnswer(Answer):
    """The decision on a start; a rejection is a decision too."""

    id: str
    seq: Annotated[int, Field(description="Where the decision stands in the event log.")]
    status: Verdict
    market: Market
    flavor: str
    at: datetime
    lifetime_s: int | float | None
    eviction_probability: Annotated[float | None, Field(description="The start's own SLA, as requested.")]
    node: str | None
    victims: Annotated[list[VictimAnswer], Field(description="Spot instances evicted to make room, youngest first.")]
    ready_at: Annotated[
        datetime | None, Field(description="From when its room is free: after its victims' grace; null: rejected.")
    ]
    reason: Annotated[Rejection | None, Field(description="Why it was rejected.")]
    quote: QuoteAnswer | None
    acceptable: AcceptableAnswer | None


@dataclass(slots=True, kw_only=True)
class InstanceAnswer(Answer):
    """An instance: the decision on its start, and how it ended if it did."""

    id: str
    seq: Annotated[int, Field(description="Where the decision on its start stands in the event log.")]
    status: InstanceStatus
    market: Market
    flavor: str
    at: Annotated[datetime, Field(description="When its start was decided.")]
    lifetime_s: int | float | None
    eviction_probability: float | None
    node: str | None
    reason: Annotated[Rejection | EvictionReason | None, Field(description="Why it was rejected or evicted.")]
    quote: QuoteAnswer | None
    ended_at: datetime | None
    cause_seq: Annotated[int | None, Field(description="The event that it was evicted for.")]
    ready_at: Annotated[datetime | None, Field(description="From when its room was free; null: it was rejected.")]


class DrillQuery(Query):
    instance_id: Name | None = Field(
        None, alias="instance", description="A running spot instance; by default the one that was started last."
    )


class InstancesQuery(PageQuery):
    status: InstanceStatus | None = None
    market: Market | None = None


@dataclass(slots=True, kw_only=True)
class InstancesAnswer(Answer):
    instances: Annotated[
        list[InstanceAnswer],
        Field(description="In the order of their starts. A page of one status may be short and still have a next."),
    ]
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class StartedResult(Answer):
    status: Literal[201] = 201
    body: StartAnswer


@dataclass(slots=True, kw_only=True)
class StoppedResult(Answer):
    status: Literal[204] = 204


@dataclass(slots=True, kw_only=True)
class FailedResult(Answer):
    status: int
    errors: list[ErrorAnswer]


@dataclass(slots=True, kw_only=True)
class BatchAnswer(Answer):
    results: Annotated[
        list[StartedResult | StoppedResult | FailedResult], Field(description="One for each operation, in their order.")
    ]


def start_answer(decision: StartDecision, seq: int) -> StartAnswer:
    """Made of the decision alone, so that a repeated request has the same answer."""
    accepted = isinstance(decision, InstanceStarted)
    return StartAnswer(
        id=decision.instance_id,
        seq=seq,
        status=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        market=decision.market,
        flavor=decision.flavor,
        at=to_datetime(decision.at_us),
        lifetime_s=optional_seconds(decision.lifetime_us),
        eviction_probability=decision.probability,
        node=decision.node if isinstance(decision, InstanceStarted) else None,
        victims=victim_answers(decision) if isinstance(decision, InstanceStarted) else [],
        ready_at=ready_at(decision) if isinstance(decision, InstanceStarted) else None,
        reason=decision.reason if isinstance(decision, InstanceRejected) else None,
        quote=quote_answer(decision.basis),
        acceptable=acceptable_answer(decision),
    )


def instance_answer(instance: Instance) -> InstanceAnswer:
    """The wire form of an instance and its end."""
    decision, end = instance.decision, instance.end
    return InstanceAnswer(
        id=decision.instance_id,
        seq=instance.seq,
        status=instance.status,
        market=decision.market,
        flavor=decision.flavor,
        at=to_datetime(decision.at_us),
        lifetime_s=optional_seconds(decision.lifetime_us),
        eviction_probability=decision.probability,
        node=decision.node if isinstance(decision, InstanceStarted) else None,
        reason=_reason(decision, end),
        quote=quote_answer(decision.basis),
        ended_at=to_datetime(end.at_us) if end else None,
        cause_seq=end.cause_seq if isinstance(end, InstanceEvicted) else None,
        ready_at=ready_at(decision) if isinstance(decision, InstanceStarted) else None,
    )


def victim_answers(started: InstanceStarted | Decided) -> list[VictimAnswer]:
    """The start's victims, each with its deadline where there is a grace period."""
    deadline = None if started.deadline_us is None else to_datetime(started.deadline_us)
    return [VictimAnswer(id=victim, deadline=deadline) for victim in started.victims]


def ready_at(started: InstanceStarted | Decided) -> datetime:
    """From when the instance's room is free."""
    return to_datetime(started.at_us if started.ready_us is None else started.ready_us)


def _reason(
    decision: StartDecision, end: InstanceStopped | InstanceEvicted | None
) -> Rejection | EvictionReason | None:
    if isinstance(decision, InstanceRejected):
        return decision.reason
    return end.reason if isinstance(end, InstanceEvicted) else None


def quote_answer(basis: Basis | None) -> QuoteAnswer | None:
    """The wire form of what a spot decision rested on."""
    if basis is None:
        return None
    return QuoteAnswer(
        epoch=basis.epoch,
        slots=basis.slots,
        eviction_probability=basis.probability,
        lifetime_s=optional_seconds(basis.quoted_lifetime_us),
        estimated_eviction_probability=basis.estimated_probability,
        eviction_probability_bound=basis.probability_bound,
        budget=_budget(basis.budget),
    )


def _budget(budget: Budget | None) -> BudgetAnswer | None:
    if budget is None:
        return None
    return BudgetAnswer(
        earned=budget.earned,
        evicted=budget.evicted,
        committed=budget.committed,
        charge=budget.charge,
        risk=budget.risk,
        affordable_lifetime_s=optional_seconds(budget.affordable_us),
    )


def acceptable_answer(decision: StartDecision) -> AcceptableAnswer | None:
    """The wire form of what would have been accepted instead."""
    found = acceptable_instead(decision)
    if found is None:
        return None
    return AcceptableAnswer(lifetime_s=optional_seconds(found.lifetime_us), eviction_probability=found.probability)
