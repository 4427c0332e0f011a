"""Promised probabilities against what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.admission.reliability import Calibration
from app.api.wire.fields import Answer, Query
from app.api.wire.paging import Link
from app.domain.times import to_datetime
from app.services.reliability import LONGEST_STRETCH, Stretch


class ReliabilityQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63)] | None = Field(
        None, description=f"Look at the {LONGEST_STRETCH} events after this one; by default at the newest."
    )


@dataclass(slots=True, kw_only=True)
class CalibrationAnswer(Answer):
    """Admitted spot instances of one promise. Evicted are those that were within their declared lifetime."""

    promised: Annotated[
        float | None, Field(description="The probability promised, or the mean of the estimates; null: no SLA.")
    ]
    admitted: int
    running: Annotated[int, Field(description="Still within their lifetime: they say nothing yet.")]
    evicted: int
    happened: Annotated[float | None, Field(description="Evicted of those admitted and not running any more.")]
    low: Annotated[float, Field(description="Lower bound of the probability (Wilson), at the confidence.")]
    high: Annotated[float, Field(description="Upper bound.")]
    bound: Annotated[float | None, Field(description="Mean of the upper bounds quoted; null: none was.")]


@dataclass(slots=True, kw_only=True)
class EstimateAnswer(CalibrationAnswer):
    """A bin of the probabilities that the tables estimated for the declared lifetimes."""

    estimate_from: float
    estimate_to: float


@dataclass(slots=True, kw_only=True)
class EpochCalibrationAnswer(CalibrationAnswer):
    epoch: Annotated[int | None, Field(description="The table that the decisions rest on.")]


@dataclass(slots=True, kw_only=True)
class ReliabilityAnswer(Answer):
    first_seq: int
    last_seq: Annotated[int, Field(description="Instances started by the events from first to last are counted.")]
    as_of: Annotated[datetime, Field(description="What became of them is told as of then.")]
    confidence: Annotated[
        float, Field(description="Of the intervals, for independent evictions; bursts make the truth less sure.")
    ]
    classes: Annotated[list[CalibrationAnswer], Field(description="By promised probability.")]
    estimates: Annotated[list[EstimateAnswer], Field(description="By estimated probability.")]
    epochs: Annotated[list[EpochCalibrationAnswer], Field(description="By epoch and promised probability.")]
    coverage: Annotated[
        float | None, Field(description="In what share of these epochs no more happened than their bounds; null: none.")
    ]
    links: list[Link]


def reliability_answer(stretch: Stretch, links: list[Link]) -> ReliabilityAnswer:
    """The wire form."""
    found = stretch.reliability
    return ReliabilityAnswer(
        first_seq=stretch.first_seq,
        last_seq=stretch.last_seq,
        as_of=to_datetime(stretch.now_us),
        confidence=found.confidence,
        classes=[CalibrationAnswer(**_counts(line)) for line in found.classes],
        estimates=[*_estimates(found.estimates)],
        epochs=[EpochCalibrationAnswer(**_counts(line), epoch=line.epoch) for line in found.epochs],
        coverage=found.coverage,
        links=links,
    )


def _estimates(lines: Iterable[Calibration]) -> Iterable[EstimateAnswer]:
    for line in lines:
        assert line.estimates is not None
        yield EstimateAnswer(**_counts(line), estimate_from=line.estimates[0], estimate_to=line.estimates[1])


def _counts(line: Calibration) -> dict[str, Any]:
    return {
        "promised": line.promised,
        "admitted": line.admitted,
        "running": line.running,
        "evicted": line.evicted,
        "happened": line.happened,
        "low": line.low,
        "high": line.high,
        "bound": line.bound,
    }
