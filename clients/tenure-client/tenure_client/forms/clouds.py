"""Answers on clouds and their policies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import (
    BudgetUnitWord,
    ClockWord,
    EvictionPolicyWord,
    ForecastWord,
    GuaranteeWord,
    PlacementWord,
)


class PolicyAnswer(Answer, kw_only=True):
    guarantee: GuaranteeWord
    eviction_probability: float
    eviction_policy: EvictionPolicyWord
    clock: ClockWord
    warm_up_s: Seconds
    recompute_every_s: Seconds
    table_max_age_s: Seconds
    history_window_s: Seconds | None
    horizon_s: Seconds
    sample_count: int
    seed: int
    confidence: float
    grace_s: Seconds
    risk_threshold: float | None
    clock_step_s: Seconds | None
    shared_ids: bool
    forecast: ForecastWord
    placement: PlacementWord
    strata_s: Annotated[
        list[Seconds], Meta(description="The lifetimes at which the next stratum of a stratified budget begins.")
    ]
    shortest_lifetime_s: Annotated[Seconds, Meta(description="The shortest lifetime that a spot start may declare.")]
    longest_lifetime_s: Annotated[Seconds | None, Meta(description="The longest one; null: any.")]
    least_probability: Annotated[
        float | None, Meta(description="The lowest eviction probability that a spot start may ask for; null: any.")
    ]
    highest_probability: Annotated[float | None, Meta(description="The highest one; null: any.")]
    owner_cores: Annotated[
        int | None, Meta(description="The cores that the running spot instances of one owner may have; null: any.")
    ]
    owner_share: Annotated[
        float | None, Meta(description="The share of what a book has left that one owner may take; null: all.")
    ]
    overrunning_cores: Annotated[
        int | None, Meta(description="An owner of more overrunning cores starts no spot instance; null: any number.")
    ]
    displaces_overrunning: Annotated[
        bool, Meta(description="Spot starts that do not fit take the room of overrunning instances.")
    ]
    overrun_share: Annotated[
        float | None,
        Meta(description="Core-hours that an owner may overrun for each within a declared lifetime; null: any number."),
    ]
    min_windows: Annotated[
        int | None,
        Meta(description="The least windows that a promise may rest on; null: any, and decisions record none."),
    ]
    budget: BudgetUnitWord
    gives_back: Annotated[
        bool, Meta(description="An instance that stops early gives back what its book earned for risk not borne.")
    ]


class CountsAnswer(Answer, kw_only=True):
    """Counts of requests and their outcomes since the log began, and of running instances."""

    on_demand_requested: int
    on_demand_admitted: Annotated[int, Meta(description="Accepted starts, but for aborted ones.")]
    spot_requested: int
    spot_admitted: Annotated[int, Meta(description="Accepted starts, but for aborted ones.")]
    spot_evicted: Annotated[int, Meta(description="Evictions of spot instances, without drills.")]
    spot_drilled: int
    running: int


class CloudAnswer(Answer, kw_only=True):
    name: str
    seq: Annotated[int, Meta(description="The seq of the log's last event.")]
    created_at: Moment
    at: Annotated[Moment, Meta(description="The time of the log's last event.")]
    policy: PolicyAnswer
    counts: CountsAnswer


class CloudNameAnswer(Answer, kw_only=True):
    name: str
    links: list[Link]


class CloudsAnswer(Answer, kw_only=True):
    clouds: list[CloudNameAnswer]
    links: list[Link]
