"""Bodies and answers of starts, stops and records of instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from app.admission.acceptable import acceptable_instead, acceptable_lifetime_us
from app.domain.budgets import Book, Budget
from app.domain.events import (
    ExtensionDecision,
    ExtensionRejected,
    InstanceEvicted,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    StartDecision,
)
from app.domain.requests import MOST_ALLOWED, MOST_MEMBERS, ExtendRequest, StartRequest, StopRequest
from app.domain.times import seconds, to_datetime
from app.domain.values import Basis, EvictionReason, Floor, InstanceStatus, Market, Rejection
from app.domain.wanted import Wanted
from app.platform.http.fields import (
    AT,
    AT_OR_NOW,
    WHOLE,
    Body,
    Name,
    PositiveSeconds,
    Probability,
    Query,
    SecondsInQuery,
    Time,
    WholeSeconds,
    guaranteed_seconds,
    optional_seconds,
)
from app.platform.http.page_forms import PageQuery
from app.scheduling.rules.extensions import in_words
from app.scheduling.rules.instances import Instance, never_ran
from tenure_client.forms.answer import answer_of
from tenure_client.forms.instances import (
    AcceptableAnswer,
    BookAnswer,
    BudgetAnswer,
    ExtensionAnswer,
    FloorAnswer,
    InstanceAnswer,
    QuotaUseAnswer,
    QuoteAnswer,
    StartAnswer,
    WantedAnswer,
)
from tenure_client.forms.nodes import VictimAnswer


class StartBody(Body):
    """A start."""

    most_bytes: ClassVar[int] = 1 << 18
    most_values: ClassVar[int] = MOST_ALLOWED + 100

    instance_id: Name = Field(description="The caller's own id. Repeating the request returns the same answer.")
    market: Market
    flavor: Name
    lifetime_us: WholeSeconds | None = Field(
        None, description="The longest time that it will run. Spot starts must declare it, or `lifetime`."
    )
    lifetime: Literal["longest"] | None = Field(
        None, description="`longest`, in place of `lifetime_s`: as long as possible. For spot only."
    )
    min_lifetime_us: PositiveSeconds | None = Field(
        None,
        description="The least lifetime that makes sense: it takes the longest between this and the one that it wants "
        "that can be promised. For spot only.",
    )
    eviction_probability: Probability | None = Field(
        None, description="The SLA of this start, instead of the cloud's. For spot only."
    )
    at_us: Time | None = Field(None, description=AT)
    count: Annotated[int, Field(ge=1, le=MOST_MEMBERS), WHOLE] = Field(
        1,
        description="The number of members. A group of more than one is placed, promised, stopped and evicted as a "
        "whole. For spot only.",
    )
    nodes: Annotated[list[Name], Field(min_length=1, max_length=MOST_ALLOWED)] | None = Field(
        None,
        description="The only nodes that it may take; unknown ones are passed over, and the log does not name them. "
        "null: any. The quote is of the whole cloud. A repeated request may name others.",
    )
    project: Name | None = Field(
        None,
        description="The project that it is for. Callers of that project alone see it as theirs, and may stop and "
        "extend it, whoever started it. A controller's start counts in this project's quotas.",
    )
    user: Name | None = Field(None, description="The user of that project who asked for it. Nothing depends on it.")

    @field_validator("lifetime", mode="before")
    @classmethod
    def _in_words(cls, value: object) -> object:
        """Tell whoever writes a time here where it belongs."""
        if value is None or value == "longest":
            return value
        raise PydanticCustomError("lifetime_word", "must be 'longest'; a time is told in seconds, as lifetime_s")

    @model_validator(mode="after")
    def _one_lifetime(self) -> Self:
        """Refuse what could be misread: two lifetimes, a minimum of nothing or above what is wanted, for on-demand."""
        if self.lifetime is None and self.min_lifetime_us is None:
            return self
        if self.market is not Market.SPOT:
            raise PydanticCustomError("lifetime", "only a spot start says lifetime or min_lifetime_s")
        if (self.lifetime is None) == (self.lifetime_us is None):
            raise PydanticCustomError("lifetime", "must say either lifetime_s or lifetime, which is longest")
        if self.lifetime_us is not None and (self.min_lifetime_us or 0) > self.lifetime_us:
            raise PydanticCustomError("lifetime", "min_lifetime_s must not be above lifetime_s")
        return self

    def request(self, owner: str | None) -> StartRequest:
        """Return the start; one that takes what it can be promised declares no lifetime."""
        request = StartRequest(
            self.instance_id,
            self.market,
            self.flavor,
            self.lifetime_us,
            self.eviction_probability,
            self.at_us,
            owner,
            count=self.count,
            nodes=tuple(self.nodes or ()),
            project=self.project,
            user=self.user,
        )
        if self.lifetime is None and self.min_lifetime_us is None:
            return request
        return replace(request, lifetime_us=None, wanted=Wanted(self.lifetime_us, self.min_lifetime_us))


class StopBody(Body):
    """A stop in a batch."""

    instance_id: Name
    at_us: Time | None = Field(None, description=AT)

    def request(self, owner: str | None) -> StopRequest:
        return StopRequest(self.instance_id, self.at_us, owner)


class ExtensionBody(Body):
    """A longer lifetime."""

    lifetime_us: WholeSeconds = Field(description="The new lifetime, counted from the instance's start.")
    at_us: Time | None = Field(None, description=AT)


class ExtendBody(ExtensionBody):
    """An extension in a batch."""

    instance_id: Name

    def request(self, owner: str | None) -> ExtendRequest:
        return ExtendRequest(self.instance_id, self.lifetime_us, self.at_us, owner)


class ExtensionQuery(Query):
    lifetime_us: SecondsInQuery = Field(description="The new lifetime, counted from the instance's start.")


class DrillBody(Body):
    """The instance to evict in a drill."""

    instance_id: Name | None = Field(
        None, alias="instance", description="A running spot instance; by default the one started last."
    )
    at_us: Time | None = Field(None, description=AT_OR_NOW)


class Verdict(StrEnum):
    """The answer to a start: accepted or rejected."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


class DrillQuery(Query):
    instance_id: Name | None = Field(
        None, alias="instance", description="A running spot instance; by default the one started last."
    )


class InstancesQuery(PageQuery):
    status: InstanceStatus | None = None
    market: Market | None = None
    project: Name | None = Field(
        None, description="Only instances for this project. Callers of one project see none of another."
    )


def start_answer(decision: StartDecision, seq: int, job: str | None = None) -> StartAnswer:
    """Return the answer to a start. It depends only on the decision, so that a repeated request has the same answer.

    `job`: the one that peers are asked to run in its place.
    """
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
        count=decision.count,
        nodes=nodes_of(decision),
        victims=victim_answers(decision.victims, decision.deadline_us) if isinstance(decision, InstanceStarted) else [],
        ready_at=ready_at(decision.at_us, decision.ready_us) if isinstance(decision, InstanceStarted) else None,
        reason=decision.reason if isinstance(decision, InstanceRejected) else None,
        quote=quote_answer(decision.basis),
        acceptable=acceptable_answer(decision),
        wanted=wanted_answer(decision.wanted),
        limited_by=decision.limited_by if isinstance(decision, InstanceStarted) else None,
        job=job,
    )


def wanted_answer(wanted: Wanted | None) -> WantedAnswer | None:
    """Return the wire form of the lifetimes that a start takes."""
    if wanted is None:
        return None
    return WantedAnswer(
        lifetime_s=optional_seconds(wanted.lifetime_us), min_lifetime_s=optional_seconds(wanted.min_lifetime_us)
    )


def extension_answer(decision: ExtensionDecision, seq: int | None) -> ExtensionAnswer:
    """Return the answer to an extension, or to the question what it would be (seq None)."""
    quote = quote_answer(decision.basis)
    assert quote is not None
    return ExtensionAnswer(
        id=decision.instance_id,
        seq=seq,
        status=Verdict.ACCEPTED if isinstance(decision, InstanceExtended) else Verdict.REJECTED,
        at=to_datetime(decision.at_us),
        lifetime_s=seconds(decision.lifetime_us),
        former_lifetime_s=seconds(decision.former_lifetime_us),
        deadline=to_datetime(decision.deadline_us),
        reason=decision.reason if isinstance(decision, ExtensionRejected) else None,
        quote=quote,
        total_risk=decision.total_risk,
        acceptable_lifetime_s=optional_seconds(acceptable_lifetime_us(decision)),
        sentence=in_words(decision),
        automatic=isinstance(decision, InstanceExtended) and decision.is_automatic,
        limited_by=decision.limited_by if isinstance(decision, InstanceExtended) else None,
    )


def instance_answer(instance: Instance) -> InstanceAnswer:
    """Return the wire form of an instance and its end."""
    decision, end = instance.decision, instance.end
    return InstanceAnswer(
        id=decision.instance_id,
        seq=instance.seq,
        status=instance.status,
        market=decision.market,
        flavor=instance.flavor,
        at=to_datetime(decision.at_us),
        lifetime_s=optional_seconds(instance.lifetime_us),
        first_lifetime_s=None if instance.extension is None else optional_seconds(decision.lifetime_us),
        eviction_probability=decision.probability,
        owner=decision.owner,
        node=instance.node,
        count=decision.count,
        nodes=nodes_of(decision),
        reason=_reason(decision, end),
        quote=quote_answer(decision.basis),
        wanted=wanted_answer(decision.wanted),
        project=decision.project,
        user=decision.user,
        observed=isinstance(decision, InstanceStarted) and decision.observed,
        aborted=never_ran(end),
        ended_at=to_datetime(end.at_us) if end else None,
        cause_seq=end.cause_seq if isinstance(end, InstanceEvicted) else None,
        ready_at=ready_at(decision.at_us, decision.ready_us) if isinstance(decision, InstanceStarted) else None,
    )


def nodes_of(decision: StartDecision) -> list[str]:
    """Return the nodes of an accepted group's members, in order; of any other start none."""
    return [*decision.nodes] if isinstance(decision, InstanceStarted) else []


def victim_answers(victims: Iterable[str], deadline_us: int | None) -> list[VictimAnswer]:
    """Return a start's victims, each with their deadline if there is a grace period."""
    deadline = None if deadline_us is None else to_datetime(deadline_us)
    return [VictimAnswer(id=victim, deadline=deadline) for victim in victims]


def ready_at(at_us: int, ready_us: int | None) -> datetime:
    """Return the time from which the room of an instance accepted at `at_us` is free."""
    return to_datetime(at_us if ready_us is None else ready_us)


def _reason(
    decision: StartDecision, end: InstanceStopped | InstanceEvicted | None
) -> Rejection | EvictionReason | None:
    if isinstance(decision, InstanceRejected):
        return decision.reason
    return end.reason if isinstance(end, InstanceEvicted) else None


def quote_answer(basis: Basis | None) -> QuoteAnswer | None:
    """Return the wire form of the figures that a spot decision rests on."""
    if basis is None:
        return None
    return QuoteAnswer(
        epoch=basis.epoch,
        slots=basis.slots,
        eviction_probability=basis.probability,
        lifetime_s=guaranteed_seconds(basis.quoted_lifetime_us),
        estimated_eviction_probability=basis.estimated_probability,
        eviction_probability_bound=basis.probability_bound,
        budget=_budget(basis.budget),
        book=_book(basis.book),
        quota=None if basis.quota is None else answer_of(QuotaUseAnswer, basis.quota),
        windows=basis.windows,
        floor=_floor(basis.floor),
    )


def _floor(floor: Floor | None) -> FloorAnswer | None:
    if floor is None:
        return None
    return FloorAnswer(
        min_windows=floor.min_windows,
        enough_at=None if floor.enough_us is None else to_datetime(floor.enough_us),
        affordable_lifetime_s=seconds(floor.affordable_us),
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
        core_hours=budget.core_hours,
        mean_core_hours=budget.mean_core_hours,
        evicted_core_hours=budget.evicted_core_hours,
    )


def _book(book: Book | None) -> BookAnswer | None:
    if book is None:
        return None
    return answer_of(
        BookAnswer,
        book,
        from_s=seconds(book.from_us),
        below_s=optional_seconds(book.below_us),
        affordable_lifetime_s=optional_seconds(book.affordable_us),
    )


def acceptable_answer(decision: StartDecision) -> AcceptableAnswer | None:
    """Return the wire form of the acceptable alternatives."""
    found = acceptable_instead(decision)
    if found is None:
        return None
    return AcceptableAnswer(lifetime_s=optional_seconds(found.lifetime_us), eviction_probability=found.probability)
