"""Answers on promises and their outcomes: reliability, SLA classes, utilisation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import (
    BudgetUnitWord,
    CoverageVerdictWord,
    EstimateVerdictWord,
    ForecastVerdictWord,
    GuaranteeWord,
    PromiseVerdictWord,
)


class CalibrationAnswer(Answer, kw_only=True):
    """Admitted spot instances of one promise. Only evictions within the declared lifetime count."""

    promised: Annotated[
        float | None, Meta(description="The probability promised, or the mean of the estimates; null: no SLA.")
    ]
    admitted: int
    running: Annotated[int, Meta(description="Instances still within their lifetime, which do not count yet.")]
    evicted: int
    happened: Annotated[
        float | None, Meta(description="The share evicted of admitted instances that are not running any more.")
    ]
    low: Annotated[
        float, Meta(description="The lower bound of the probability (Clopper and Pearson), at the confidence.")
    ]
    high: Annotated[float, Meta(description="The upper bound.")]
    bound: Annotated[float | None, Meta(description="The mean of the quoted upper bounds; null: there were none.")]


class EstimateAnswer(CalibrationAnswer, kw_only=True):
    """A bin of the probabilities that the tables estimated for the declared lifetimes."""

    estimate_from: float
    estimate_to: float


class EpochCalibrationAnswer(CalibrationAnswer, kw_only=True):
    epoch: Annotated[int | None, Meta(description="The table that the decisions rest on.")]


class TruthAnswer(Answer, kw_only=True):
    """The verdicts on what was said of admitted instances: of all, of a stratum of lifetimes, or of a flavor."""

    by: Annotated[str, Meta(description="all, stratum or flavor.")]
    name: str
    cases: Annotated[int, Meta(description="Instances with an estimate whose outcome is known.")]
    evicted: int
    said: Annotated[float, Meta(description="The mean estimate.")]
    happened: Annotated[float, Meta(description="evicted / cases.")]
    low: Annotated[float, Meta(description="The lower bound of `happened` (Clopper and Pearson).")]
    high: Annotated[float, Meta(description="The upper bound.")]
    verdict: EstimateVerdictWord
    sentence: Annotated[str, Meta(description="That verdict in words.")]
    log_loss: Annotated[float, Meta(description="The mean of -ln of the probability given to what happened.")]
    constant_log_loss: Annotated[float, Meta(description="That of the best constant, known in hindsight only.")]
    loss_verdict: ForecastVerdictWord
    loss_sentence: str
    epochs: Annotated[int, Meta(description="Epochs in which a bound was said.")]
    covered: Annotated[int, Meta(description="Of them, those in which no more was evicted than the mean bound.")]
    coverage_verdict: CoverageVerdictWord
    coverage_sentence: str


class ReliabilityAnswer(Answer, kw_only=True):
    first_seq: int
    last_seq: Annotated[
        int, Meta(description="Instances started by the events from first_seq to last_seq are counted.")
    ]
    as_of: Annotated[Moment, Meta(description="The time as of which outcomes are counted.")]
    confidence: Annotated[
        float, Meta(description="The confidence of the intervals, if evictions are independent. Bursts make it lower.")
    ]
    classes: Annotated[list[CalibrationAnswer], Meta(description="By promised probability.")]
    estimates: Annotated[list[EstimateAnswer], Meta(description="By estimated probability.")]
    epochs: Annotated[list[EpochCalibrationAnswer], Meta(description="By epoch and promised probability.")]
    coverage: Annotated[
        float | None, Meta(description="The share of these epochs in which the bounds held; null: no bounds.")
    ]
    links: list[Link]
    truths: Annotated[
        list[TruthAnswer], Meta(description="Verdicts: of all, by stratum of declared lifetimes, and by flavor.")
    ] = field(default_factory=list)


class ClassBudgetAnswer(Answer, kw_only=True):
    """The eviction budget of a class."""

    earned: Annotated[float, Meta(description="Evictions that the promises to admitted instances allow.")]
    spent: Annotated[int, Meta(description="Evictions so far.")]
    committed: Annotated[float, Meta(description="The charges of the running instances.")]
    left: Annotated[
        float, Meta(description="The rest. Below 0 the class is in debt, or would be after a load as high as before.")
    ]
    unit: Annotated[
        BudgetUnitWord, Meta(description="What `earned`, `committed` and `left` count: evictions, or core-hours.")
    ] = "instances"
    spent_core_hours: Annotated[
        float | None, Meta(description="Core-hours evicted so far; null: the budget counts instances.")
    ] = None


class ClassBookAnswer(Answer, kw_only=True):
    """The book of a stratum of lifetimes of a class."""

    from_s: Annotated[Seconds, Meta(description="The shortest lifetime of the stratum.")]
    below_s: Annotated[Seconds | None, Meta(description="Its lifetimes are shorter than this; null: any.")]
    earned: Annotated[float, Meta(description="What the starts of the stratum have earned.")]
    evicted: Annotated[int, Meta(description="The evictions that it has had.")]
    left: Annotated[float, Meta(description="Earned less evicted. Below 0 the book is in debt.")]
    committed: Annotated[
        float, Meta(description="The risks of its running instances, by the share of their lifetime that is left.")
    ]
    risky: Annotated[
        int, Meta(description="How many that run in the stratum risk more than half of their promise and of this one.")
    ]
    unit: Annotated[
        BudgetUnitWord, Meta(description="What `earned`, `left` and `committed` count: evictions, or core-hours.")
    ] = "instances"
    mean_core_hours: Annotated[
        float | None, Meta(description="The mean of its starts; null: the book counts instances.")
    ] = None
    evicted_core_hours: Annotated[float | None, Meta(description="Core-hours of those evicted.")] = None
    risky_core_hours: Annotated[float | None, Meta(description="Core-hours of the risky ones.")] = None


class StandingAnswer(Answer, kw_only=True):
    """Instances that are judged together, since the cloud began: a stratum of a class, a flavor, or a week's starts."""

    name: Annotated[str, Meta(description="The stratum of declared lifetimes, the flavor, or the week's first day.")]
    promised: Annotated[float, Meta(description="The probability promised; of a flavor or a week the mean.")]
    admitted: int
    evicted: Annotated[int, Meta(description="Evictions within the declared lifetime, without drills.")]
    ratio: Annotated[float | None, Meta(description="evicted / admitted so far; who still runs counts as not evicted.")]
    low: Annotated[float, Meta(description="The lower bound of `ratio` (Clopper and Pearson).")]
    high: Annotated[float, Meta(description="The upper bound.")]
    verdict: PromiseVerdictWord
    sentence: Annotated[str, Meta(description="The verdict in words.")]
    core_s: Annotated[float, Meta(description="Core-seconds of all admitted, as declared.")]
    lost_core_s: Annotated[float, Meta(description="Of them, those of instances evicted within their lifetime.")]
    overran: Annotated[int, Meta(description="Instances that ran on after their declared lifetime, or do so now.")]
    overran_share: Annotated[float | None, Meta(description="overran / admitted.")]
    overrun_evicted: Annotated[int, Meta(description="Instances that were evicted then, when the promise was over.")]


class ClassAnswer(Answer, kw_only=True):
    """All instances promised one eviction probability since the cloud began."""

    promised: float
    admitted: int
    running: Annotated[int, Meta(description="Instances still within their declared lifetime.")]
    evicted: Annotated[int, Meta(description="Evictions within the declared lifetime, without drills.")]
    ratio: Annotated[float | None, Meta(description="evicted / admitted so far; who still runs counts as not evicted.")]
    low: Annotated[float, Meta(description="The lower bound of `ratio` (Clopper and Pearson, of evicted of admitted).")]
    high: Annotated[float, Meta(description="The upper bound.")]
    is_kept: Annotated[
        bool,
        Meta(description="True if `ratio` is not above `promised`, be it by chance or not; `verdict` judges."),
    ]
    budget: Annotated[ClassBudgetAnswer | None, Meta(description="The budget, under the pooled guarantee only.")]
    books: Annotated[
        list[ClassBookAnswer] | None,
        Meta(description="The books of its strata, the shortest lifetimes first, under the stratified guarantee only."),
    ] = None
    verdict: PromiseVerdictWord = "too_few"
    sentence: Annotated[str, Meta(description="The verdict in words.")] = ""
    strata: Annotated[
        list[StandingAnswer], Meta(description="By stratum of declared lifetimes, the shortest first.")
    ] = field(default_factory=list)


class SlaAnswer(Answer, kw_only=True):
    guarantee: GuaranteeWord
    as_of: Moment
    seq: Annotated[int, Meta(description="The seq of the last event counted.")]
    confidence: Annotated[float, Meta(description="The confidence of the bounds, if evictions are independent.")]
    classes: Annotated[list[ClassAnswer], Meta(description="By rising probability.")]
    flavors: Annotated[list[StandingAnswer], Meta(description="By flavor, of all classes together.")] = field(
        default_factory=list
    )
    weeks: Annotated[
        list[StandingAnswer],
        Meta(description="By the week of the start, from Monday in UTC, of all classes together; the newest 53."),
    ] = field(default_factory=list)


class PointAnswer(Answer, kw_only=True):
    """A bucket of time. Means are exact and weighted by time; peaks are the highest value after any event."""

    at: Moment
    on_demand_mean: Annotated[float, Meta(description="Cores used by on-demand instances.")]
    spot_mean: float
    total_mean: Annotated[float, Meta(description="Cores of all nodes that were not removed.")]
    on_demand_peak: int
    spot_peak: int
    used_peak: Annotated[int, Meta(description="The peak of both markets together.")]
    on_demand_admitted: Annotated[int, Meta(description="Starts accepted in this time, also if aborted later.")]
    on_demand_rejected: int
    spot_admitted: Annotated[int, Meta(description="Starts accepted in this time, also if aborted later.")]
    spot_rejected: int
    evicted: int


class UtilisationAnswer(Answer, kw_only=True):
    begin_at: Moment
    as_of: Annotated[Moment, Meta(description="The last point's mean includes nothing after this time.")]
    width_s: Annotated[int, Meta(description="The length of each point's bucket.")]
    seq: Annotated[int, Meta(description="The last event counted.")]
    log_seq: Annotated[int, Meta(description="The end of the log. A worker soon brings `seq` up to it.")]
    points: list[PointAnswer]
