"""Answers that compare promised probabilities with outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from app.admission.reliability import Calibration
from app.domain.times import to_datetime
from app.forecasts.reliability import LONGEST_STRETCH, Stretch
from app.platform.http.fields import Query
from tenure_client.forms.answer import Link
from tenure_client.forms.promises import CalibrationAnswer, EpochCalibrationAnswer, EstimateAnswer, ReliabilityAnswer


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
