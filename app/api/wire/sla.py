"""How each SLA class stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.admission.attainment import Attainment
from app.admission.reliability import CONFIDENCE
from app.api.wire.fields import Answer
from app.domain.times import to_datetime
from app.domain.values import Guarantee


@dataclass(slots=True, kw_only=True)
class ClassBudgetAnswer(Answer):
    """The eviction budget of a class."""

    earned: Annotated[float, Field(description="How many of those admitted may be evicted.")]
    spent: Annotated[int, Field(description="How many were.")]
    committed: Annotated[float, Field(description="What those that run are charged; 0 unless the guarantee is pooled.")]
    left: Annotated[float, Field(description="Below 0 the class is in debt, or would be after a load as seen before.")]


@dataclass(slots=True, kw_only=True)
class ClassAnswer(Answer):
    """All instances that were promised one eviction probability, since the cloud began."""

    promised: float
    admitted: int
    running: Annotated[int, Field(description="Still within their declared lifetime.")]
    evicted: Annotated[int, Field(description="Within their declared lifetime; drills are not counted.")]
    ratio: Annotated[float | None, Field(description="Evicted of those admitted.")]
    low: Annotated[float, Field(description="Lower bound of the probability that happened (Wilson).")]
    high: Annotated[float, Field(description="Upper bound.")]
    is_kept: Annotated[bool, Field(description="Whether no more were evicted than promised.")]
    budget: ClassBudgetAnswer


@dataclass(slots=True, kw_only=True)
class SlaAnswer(Answer):
    guarantee: Guarantee
    as_of: datetime
    seq: Annotated[int, Field(description="The end of the event log that this was read at.")]
    confidence: Annotated[float, Field(description="Of the bounds, for independent evictions.")]
    classes: Annotated[list[ClassAnswer], Field(description="By rising probability.")]


def sla_answer(guarantee: Guarantee, at_us: int, seq: int, classes: Iterable[Attainment]) -> SlaAnswer:
    """The wire form."""
    return SlaAnswer(
        guarantee=guarantee,
        as_of=to_datetime(at_us),
        seq=seq,
        confidence=CONFIDENCE,
        classes=[_class(found) for found in classes],
    )


def _class(found: Attainment) -> ClassAnswer:
    return ClassAnswer(
        promised=found.promised,
        admitted=found.admitted,
        running=found.running,
        evicted=found.evicted,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        is_kept=found.is_kept,
        budget=ClassBudgetAnswer(earned=found.earned, spent=found.evicted, committed=found.committed, left=found.left),
    )
