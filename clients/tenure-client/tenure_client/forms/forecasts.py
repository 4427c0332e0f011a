"""Answers on quotes, quantile tables and the runs that compute them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import ForecastWord, RunCauseWord, RunStatusWord


class EvidenceAnswer(Answer, kw_only=True):
    """A bucket of samples that a quote is read from. A quote without a bucket of its own lies between two."""

    slots: int
    sample_count: int
    evicted_count: Annotated[
        int, Meta(description="Samples evicted at any time that they were followed, not only within the lifetime.")
    ]


class FlavorQuoteAnswer(Answer, kw_only=True):
    flavor: str
    slots: Annotated[
        int,
        Meta(
            description="Available slots: the present number, or the requested one. Where a start would evict "
            "overrunning instances, those that there are without them."
        ),
    ]
    displaced_count: Annotated[
        int,
        Meta(
            description="So many overrunning instances a start would evict, because no slot is free. 0: none, or they "
            "do not make room."
        ),
    ] = 0
    eviction_probability: float
    lifetime_s: Annotated[
        Seconds | None,
        Meta(
            description="The lifetime guaranteed at that probability, ten years at most; shorter ones are accepted. "
            "Null: no evidence."
        ),
    ]
    lifetime_bound: Annotated[
        float | None,
        Meta(
            description="The upper bound, at the policy's confidence, of the eviction probability of lifetimes just "
            "below `lifetime_s`: what the samples certify. Null: no evidence."
        ),
    ]
    asked_lifetime_s: Seconds | None
    estimated_eviction_probability: Annotated[
        float | None,
        Meta(description="The eviction probability of the requested lifetime; 1 if it cannot be certified."),
    ]
    eviction_probability_bound: Annotated[
        float | None,
        Meta(description="The upper bound of that probability at the policy's confidence; null: no evidence."),
    ]
    windows: Annotated[
        float | None,
        Meta(description="How many windows, independent pieces of evidence, that probability and its bound rest on."),
    ]
    lifetime_windows: Annotated[
        float | None, Meta(description="How many windows `lifetime_s` and its bound rest on; null: no evidence.")
    ]
    evidence: list[EvidenceAnswer]


class QuotesAnswer(Answer, kw_only=True):
    epoch: int
    epoch_at: Annotated[Moment, Meta(description="The end of the history that the table was computed from.")]
    expires_at: Annotated[
        Moment, Meta(description="From this time on spot starts are rejected, unless there is a newer table.")
    ]
    quotes: list[FlavorQuoteAnswer]


class CurvePointAnswer(Answer, kw_only=True):
    """The estimate of a lifetime at a number of available slots."""

    lifetime_s: Seconds
    estimated_eviction_probability: Annotated[
        float | None, Meta(description="Null if nothing observed ran that long, so nothing is certified.")
    ]
    eviction_probability_bound: Annotated[
        float | None, Meta(description="Its upper bound, at the policy's confidence.")
    ]
    window_count: Annotated[
        float | None,
        Meta(description="How many windows the estimate rests on, as in a quote: what `min_windows` counts."),
    ]
    is_thin: Annotated[bool, Meta(description="True if the bound takes these for fewer than `few_windows`.")]


class LifetimeCurveAnswer(Answer, kw_only=True):
    """Estimates by lifetime. A longer lifetime is never safer."""

    slots: int
    points: list[CurvePointAnswer]


class GuaranteedAnswer(Answer, kw_only=True):
    """The lifetimes guaranteed at a number of available slots, in the order of `probabilities`."""

    slots: int
    lifetimes_s: list[Seconds]


class CurvesAnswer(Answer, kw_only=True):
    """The curves of a flavor by the forecast in force, as of now: by available slots, and by lifetime."""

    flavor: str
    forecast: ForecastWord
    epoch: int
    epoch_at: Annotated[Moment, Meta(description="The end of the history that the table was computed from.")]
    slots: Annotated[int, Meta(description="The present number of available slots.")]
    confidence: Annotated[float, Meta(description="The confidence of the bounds.")]
    few_windows: Annotated[
        int,
        Meta(
            description="Estimates whose windows the bound takes for fewer are thin: where bursts strike many "
            "instances at once, it takes several windows for one (`design_effect` of the table)."
        ),
    ]
    probabilities: Annotated[list[float], Meta(description="Rising; the cloud's own is among them.")]
    guaranteed: Annotated[
        list[GuaranteedAnswer], Meta(description="By rising slots, the present number among them; empty: no evidence.")
    ]
    curves: Annotated[
        list[LifetimeCurveAnswer], Meta(description="At a few numbers of slots, the present one among them.")
    ]


class BucketAnswer(Answer, kw_only=True):
    """The distribution of the time to eviction at a number of available slots."""

    slots: int
    sample_count: int
    evicted_count: int
    longest_s: Annotated[Seconds, Meta(description="The longest time observed; nothing is certified beyond it.")]
    times_s: Annotated[list[Seconds], Meta(description="The times at which the share evicted rises.")]
    levels: Annotated[list[float], Meta(description="The share evicted by each of these times.")]


class CurveAnswer(Answer, kw_only=True):
    flavor: str
    buckets: Annotated[list[BucketAnswer], Meta(description="By rising slots.")]


class TableSummaryAnswer(Answer, kw_only=True):
    epoch: int
    seq: Annotated[int, Meta(description="The seq of the last event that it was computed from.")]
    epoch_at: Annotated[Moment, Meta(description="The end of the history that it was computed from.")]
    computed_at: Annotated[Moment, Meta(description="The server's time at which it was published.")]
    wall_s: Annotated[float, Meta(description="The duration of the computation.")]
    links: list[Link]


class FollowedStartsAnswer(Answer, kw_only=True):
    """The past starts of a stratum of declared lifetimes that were followed to their ends, admitted or not."""

    stratum: str
    start_count: int
    evicted_count: int
    window_count: Annotated[
        float, Meta(description="The history in lifetimes of the mean start, each of at least six hours.")
    ]
    design_effect: Annotated[
        float | None,
        Meta(description="How many windows are worth one in a bound; null in tables from before it was learned."),
    ] = None


class ActivityAnswer(Answer, kw_only=True):
    """By resource, how much more on-demand starts asked for on the last day than usual, as a logarithm.

    Null where it has no part.
    """

    cores: float
    memory_mib: float
    disk_gib: float


class TableAnswer(TableSummaryAnswer, kw_only=True):
    curves: list[CurveAnswer]
    level: Annotated[
        float | None,
        Meta(description="What past starts add to the logit of the calibrated forecast; null where it has no part."),
    ] = None
    activity: ActivityAnswer | None = None
    followed_starts: Annotated[
        list[FollowedStartsAnswer], Meta(description="What the level was learned on; empty without a level.")
    ] = field(default_factory=list)


class TablesAnswer(Answer, kw_only=True):
    tables: Annotated[list[TableSummaryAnswer], Meta(description="Newest first.")]
    links: list[Link]


class RunAnswer(Answer, kw_only=True):
    """One computation of a quantile table."""

    id: int
    cause: RunCauseWord
    status: RunStatusWord
    due_at: Annotated[Moment | None, Meta(description="The end of the history to compute from; null: the present.")]
    attempts: int
    error: Annotated[str | None, Meta(description="The reason why the last attempt failed.")]
    epoch: Annotated[int | None, Meta(description="The table that it published.")]
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    links: list[Link]


class RunsAnswer(Answer, kw_only=True):
    runs: Annotated[list[RunAnswer], Meta(description="Newest first.")]
    links: list[Link]
