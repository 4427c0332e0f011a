"""Answers on promises and their outcomes: reliability, SLA classes, utilisation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment
from tenure_client.forms.words import GuaranteeWord


class CalibrationAnswer(Answer, kw_only=True):
    """Admitted spot instances of one promise. Only evictions within the declared lifetime count."""

    promised: Annotated[
        float | None, Meta(description="The probability promised, or the mean of the estimates; null: no SLA.")
    ]
    admitted: int
    running: Annotated[int, Meta(description="Still within their lifetime: they say nothing yet.")]
    evicted: int
    happened: Annotated[float | None, Meta(description="Evicted of those admitted and not running any more.")]
    low: Annotated[float, Meta(description="Lower bound of the probability (Wilson), at the confidence.")]
    high: Annotated[float, Meta(description="Upper bound.")]
    bound: Annotated[float | None, Meta(description="Mean of the upper bounds quoted; null: none was.")]


class EstimateAnswer(CalibrationAnswer, kw_only=True):
    """A bin of the probabilities that the tables estimated for the declared lifetimes."""

    estimate_from: float
    estimate_to: float


class EpochCalibrationAnswer(CalibrationAnswer, kw_only=True):
    epoch: Annotated[int | None, Meta(description="The table that the decisions rest on.")]


class ReliabilityAnswer(Answer, kw_only=True):
    first_seq: int
    last_seq: Annotated[int, Meta(description="Instances started by the events from first to last are counted.")]
    as_of: Annotated[Moment, Meta(description="What became of them is told as of then.")]
    confidence: Annotated[
        float, Meta(description="Of the intervals, for independent evictions; bursts make the truth less sure.")
    ]
    classes: Annotated[list[CalibrationAnswer], Meta(description="By promised probability.")]
    estimates: Annotated[list[EstimateAnswer], Meta(description="By estimated probability.")]
    epochs: Annotated[list[EpochCalibrationAnswer], Meta(description="By epoch and promised probability.")]
    coverage: Annotated[
        float | None, Meta(description="In what share of these epochs no more happened than their bounds; null: none.")
    ]
    links: list[Link]


class ClassBudgetAnswer(Answer, kw_only=True):
    """The eviction budget of a class."""

    earned: Annotated[float, Meta(description="How many of those admitted may be evicted.")]
    spent: Annotated[int, Meta(description="How many were.")]
    committed: Annotated[float, Meta(description="What those that run are charged; 0 unless the guarantee is pooled.")]
    left: Annotated[float, Meta(description="Below 0 the class is in debt, or would be after a load as seen before.")]


class ClassAnswer(Answer, kw_only=True):
    """All instances promised one eviction probability since the cloud began."""

    promised: float
    admitted: int
    running: Annotated[int, Meta(description="Still within their declared lifetime.")]
    evicted: Annotated[int, Meta(description="Within their declared lifetime; drills are not counted.")]
    ratio: Annotated[float | None, Meta(description="Evicted of those admitted.")]
    low: Annotated[float, Meta(description="Lower bound of the probability that happened (Wilson).")]
    high: Annotated[float, Meta(description="Upper bound.")]
    is_kept: Annotated[bool, Meta(description="Whether no more were evicted than promised.")]
    budget: ClassBudgetAnswer


class SlaAnswer(Answer, kw_only=True):
    guarantee: GuaranteeWord
    as_of: Moment
    seq: Annotated[int, Meta(description="The end of the event log that this was read at.")]
    confidence: Annotated[float, Meta(description="Of the bounds, for independent evictions.")]
    classes: Annotated[list[ClassAnswer], Meta(description="By rising probability.")]


class PointAnswer(Answer, kw_only=True):
    """A bucket of time. Means are exact and weighted by time; peaks are the highest value after any event."""

    at: Moment
    on_demand_mean: Annotated[float, Meta(description="Cores that on-demand instances had.")]
    spot_mean: float
    total_mean: Annotated[float, Meta(description="Cores that there were, on nodes that were not removed.")]
    on_demand_peak: int
    spot_peak: int
    used_peak: Annotated[int, Meta(description="Of both markets together.")]
    on_demand_admitted: int
    on_demand_rejected: int
    spot_admitted: int
    spot_rejected: int
    evicted: int


class UtilisationAnswer(Answer, kw_only=True):
    begin_at: Moment
    as_of: Annotated[Moment, Meta(description="The last point's mean goes up to then at most.")]
    width_s: Annotated[int, Meta(description="How long each point's bucket is.")]
    seq: Annotated[int, Meta(description="The events that are in it.")]
    log_seq: Annotated[int, Meta(description="The end of the log: a worker brings `seq` up to it in a moment.")]
    points: list[PointAnswer]
