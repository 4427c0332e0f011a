"""Answers that compare promised probabilities with outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from app.domain.times import to_datetime
from app.forecasts.reliability import LONGEST_STRETCH, Stretch
from app.judging.reliability import Calibration
from app.platform.http.fields import Query
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.promises import (
    CalibrationAnswer,
    EpochCalibrationAnswer,
    EstimateAnswer,
    ReliabilityAnswer,
    TruthAnswer,
)


class ReliabilityQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63)] | None = Field(
        None, description=f"Look at the {LONGEST_STRETCH} events after this one; by default at the newest."
    )


def reliability_answer(stretch: Stretch, links: list[Link]) -> ReliabilityAnswer:
    """Return the wire form of a stretch's reliability."""
    found = stretch.reliability
    return ReliabilityAnswer(
        first_seq=stretch.first_seq,
        last_seq=stretch.last_seq,
        as_of=to_datetime(stretch.now_us),
        confidence=found.confidence,
        classes=[answer_of(CalibrationAnswer, line) for line in found.classes],
        estimates=[*_estimates(found.estimates)],
        epochs=[answer_of(EpochCalibrationAnswer, line) for line in found.epochs],
        coverage=found.coverage,
        truths=[answer_of(TruthAnswer, one) for one in found.truths],
        links=links,
    )


def _estimates(lines: Iterable[Calibration]) -> Iterable[EstimateAnswer]:
    for line in lines:
        assert line.estimates is not None
        low, high = line.estimates
        yield answer_of(EstimateAnswer, line, estimate_from=low, estimate_to=high)
