"""Answers on plans: where to run each job, at which bid, and until when to wait; and how true plans were."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import (
    ChoiceMethodWord,
    JobMoveWord,
    LeftOutWord,
    PlannedRunWord,
    SurvivalSourceWord,
)


class DistributionAnswer(Answer, kw_only=True):
    """Of replays from past starts."""

    mean: float
    p5: Annotated[float, Meta(description="A twentieth was lower.")]
    p50: Annotated[float, Meta(description="The median.")]
    p95: Annotated[float, Meta(description="A twentieth was higher.")]


class PlanWayAnswer(Answer, kw_only=True):
    """A pool that a job may run in."""

    source: SurvivalSourceWord
    place: Annotated[str, Meta(description="The venue, the cloud, the peer, or the name of the rate.")]
    zone: str
    instance_type: Annotated[str, Meta(description="Or the flavor, or the size at a peer.")]
    product: str | None
    is_stale: Annotated[bool, Meta(description="True if the venue's newest price was more than 25 hours old.")]
    price: Annotated[float, Meta(description="Of an hour now.")]
    bid: Annotated[float | None, Meta(description="The most to pay for an hour; null where there are no bids.")]
    survival: Annotated[float, Meta(description="The probability that the machine lives for the job's run.")]
    at_least: Annotated[float | None, Meta(description="A lower bound of it at .95; null where none is known.")]
    windows: Annotated[float, Meta(description="Pieces of evidence that share no future.")]
    expected_cost: Annotated[float, Meta(description="Of the whole job if it begins here, with all that may follow.")]
    run_s: Annotated[Seconds, Meta(description="The whole job's run time here.")]
    checkpoint_every_s: Annotated[Seconds | None, Meta(description="Work between two checkpoints; null: none.")]
    write_s: Annotated[Seconds | None, Meta(description="A checkpoint's pause; null where the job has none.")]
    read_s: Seconds
    launch_s: Seconds


class OnDemandAnswer(Answer, kw_only=True):
    """The cheapest machine on demand that meets the deadline."""

    place: str
    instance_type: str
    price: Annotated[float, Meta(description="Of an hour.")]
    cost: Annotated[float, Meta(description="Of the whole job there.")]
    run_s: Seconds
    read_s: Seconds
    launch_s: Seconds
    leave_at: Annotated[
        Moment | None,
        Meta(description="The latest moment to go there with no work saved; what is saved gives that much more time."),
    ]


class StretchAnswer(Answer, kw_only=True):
    """A time on a machine in a replay, from the job's start on."""

    way: Annotated[int | None, Meta(description="The number among the job's ways; null: on demand.")]
    from_s: Seconds
    to_s: Seconds
    lost: Annotated[bool, Meta(description="True if the machine was revoked.")]


class PlannedJobAnswer(Answer, kw_only=True):
    id: str
    deadline: Moment | None
    runs: PlannedRunWord
    survival: Annotated[float, Meta(description="What is promised of the first machine; 1 on demand.")]
    ways: Annotated[list[PlanWayAnswer], Meta(description="In order: take the first that can be had.")]
    on_demand: OnDemandAnswer | None
    expected_cost: Annotated[float, Meta(description="By replay at the past starts that were most like now.")]
    calibrated_cost: Annotated[float, Meta(description="The same, times what was paid over what was said so far.")]
    cost: Annotated[DistributionAnswer | None, Meta(description="Of the plan from evenly spaced past starts.")]
    ends_s: Annotated[DistributionAnswer | None, Meta(description="Seconds from the start to the end, likewise.")]
    in_time: Annotated[float | None, Meta(description="The share of replays that ended by the deadline.")]
    all_spot: Annotated[float | None, Meta(description="The share of replays that needed no machine on demand.")]
    launches: Annotated[float | None, Meta(description="Their mean number.")]
    replay_count: Annotated[int, Meta(description="The past starts that could be watched to the job's end.")]
    typical: Annotated[list[StretchAnswer], Meta(description="A replay of the median cost.")]
    bad: Annotated[list[StretchAnswer], Meta(description="A replay that only a twentieth cost more than.")]


class PlanChoiceAnswer(Answer, kw_only=True):
    method: ChoiceMethodWord
    gap: Annotated[float, Meta(description="How far the loss may be from the least, as a share of it.")]


class LeftOutAnswer(Answer, kw_only=True):
    place: str
    pool: str
    why: LeftOutWord
    detail: Annotated[str | None, Meta(description="More of the reason, for people.")] = None


class PlanVenueAnswer(Answer, kw_only=True):
    name: str
    as_of: Annotated[Moment, Meta(description="The time of its newest price.")]
    is_stale: bool


class PlanAnswer(Answer, kw_only=True):
    id: str
    created_at: Moment
    as_of: Annotated[Moment, Meta(description="The time at which the jobs begin.")]
    currency: Annotated[str | None, Meta(description="Of all costs; null if no venue says it.")]
    probability: Annotated[float, Meta(description="What each first machine's survival reaches at least.")]
    expected_cost: float
    calibrated_cost: float
    on_demand_cost: Annotated[float | None, Meta(description="Of all jobs on demand; null if one cannot run there.")]
    cost: Annotated[DistributionAnswer | None, Meta(description="Of all jobs together, from the same past starts.")]
    cost_quantiles: Annotated[list[float], Meta(description="At 0, 5, 10, ... 100 per cent of the replays.")]
    choice: PlanChoiceAnswer
    pool_count: int
    left_out_count: int
    left_out: Annotated[list[LeftOutAnswer], Meta(description="The first hundred.")]
    venues: list[PlanVenueAnswer]
    jobs: list[PlannedJobAnswer]
    links: list[Link]


class PlanSummaryAnswer(Answer, kw_only=True):
    id: str
    created_at: Moment
    as_of: Moment
    currency: str | None
    job_count: int
    expected_cost: float
    on_demand_cost: float | None
    links: list[Link]


class PlansAnswer(Answer, kw_only=True):
    plans: Annotated[list[PlanSummaryAnswer], Meta(description="The newest first.")]
    links: list[Link]


class JobMoveAnswer(Answer, kw_only=True):
    """The move of a job that is on no machine."""

    job: str
    move: JobMoveWord
    way: Annotated[int | None, Meta(description="The number of the way to run on.")]
    at_most_s: Annotated[
        Seconds, Meta(description="After this long at the latest the job is off that machine, or done.")
    ]
    saved_then: Annotated[float, Meta(description="The share of the work that is saved or done by then.")]


class PlanOutcomeAnswer(Answer, kw_only=True):
    """A job's outcome, beside what was said of it."""

    plan: str
    job: str
    told_at: Moment
    venue: Annotated[str | None, Meta(description="Of the pool that it began in; null elsewhere.")]
    peer: Annotated[str | None, Meta(description="The peer that it began at; null elsewhere.")]
    zone: str | None
    instance_type: str | None
    promised: Annotated[float, Meta(description="The survival of its first machine.")]
    said_cost: float
    ended_at: Moment | None
    cost: float
    lost: int
    on_demand: bool


class VenueRecordAnswer(Answer, kw_only=True):
    """The outcomes of a pool, or of all pools where it has no words."""

    zone: str | None
    instance_type: str | None
    count: int
    promised: Annotated[float | None, Meta(description="The mean survival that was said of first machines.")]
    lived: Annotated[float | None, Meta(description="The share of first machines that were not lost.")]
    lived_low: Annotated[float, Meta(description="The interval of that share's probability.")]
    lived_high: float
    said_cost: float
    paid_cost: float
    on_demand: Annotated[int, Meta(description="Jobs that needed a machine on demand.")]


class VenueReliabilityAnswer(Answer, kw_only=True):
    venue: str
    confidence: float
    all: VenueRecordAnswer
    pools: Annotated[list[VenueRecordAnswer], Meta(description="Those with most outcomes first.")]
    links: list[Link]


class PeerReliabilityAnswer(Answer, kw_only=True):
    peer: str
    confidence: float
    all: VenueRecordAnswer
    pools: Annotated[list[VenueRecordAnswer], Meta(description="By size, those with most outcomes first.")]
    links: list[Link]
