"""Facts of a cloud for operators and Prometheus, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.budgets import BudgetUnit


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """The class of all instances that were promised one eviction probability; `left` is its eviction budget in
    instances, `left_by_unit` what budgets count in `unit`.

    `low` and `high` are the interval of evicted / admitted. `name` is the promise as text, or `OTHER`. `books` is what
    the books of its strata have left, by the stratum's name; `OTHER` has none.
    """

    name: str
    promised: float
    admitted: int
    running: int
    evicted: int
    low: float
    high: float
    left: float
    left_by_unit: float
    unit: BudgetUnit = BudgetUnit.INSTANCES
    books: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingFacts:
    """Instances that are judged together: a stratum of one class (`of_class`), or a flavor of all classes.

    `low` is the lower end of the interval of evicted / admitted. Core-seconds are declared ones, of all and of those
    evicted within their lifetime.
    """

    of_class: str
    name: str
    promised: float
    admitted: int
    evicted: int
    low: float
    core_s: float
    lost_core_s: float
    overran: int
    overrun_evicted: int


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """The spot instances of one owner, of admins (`ADMINS`), or of all owners that are not told one by one (`OTHERS`).

    `running`, `cores` and `overrunning_cores` are of now, the rest since the log began or the owner was
    forgotten. `quota_cores` is what its quota allows; None if that is not limited.
    """

    name: str
    running: int
    cores: int
    overrunning_cores: int
    quota_cores: int | None
    admitted: int
    evicted: int
    overran: int


@dataclass(frozen=True, slots=True)
class EstimateFacts:
    """Estimates of a stratum, or of all of them (`all`), beside what happened; fields as of judging.truths.Truth."""

    name: str
    cases: int
    evicted: int
    said: float
    log_loss: float
    constant_log_loss: float
    epochs: int
    covered: int


@dataclass(frozen=True, slots=True)
class CloudFacts:
    """The facts of one cloud. Mappings are by market, node status, flavor or run status; None means no data.

    Counts of instances are since the log began. `table_age_s` is the age of the newest table by the cloud's own clock,
    counted from the end of the history behind it. Decisions compare the same number with `table_max_age_s`.
    `estimates` are verdicts on all and by stratum, some minutes old.
    `log_ahead_s` is how far the log's time is ahead of the server's; None with an external clock.
    """

    name: str
    log_events: int
    log_ahead_s: float | None
    requested: Mapping[str, int]
    admitted: Mapping[str, int]
    evicted: int
    drilled: int
    running: Mapping[str, int]
    at_risk: int
    wanting: Mapping[str, int]
    handovers: Mapping[str, int]
    classes: Sequence[ClassFacts]
    strata: Sequence[StandingFacts]
    flavors: Sequence[StandingFacts]
    owner_count: int
    owners: Sequence[OwnerFacts]
    estimates: Sequence[EstimateFacts]
    nodes: Mapping[str, int]
    capacity_cores: Mapping[str, int]
    used_cores: Mapping[str, int]
    slots: Mapping[str, int]
    epoch: int | None
    table_age_s: float | None
    table_max_age_s: float
    table_computing_s: float | None
    runs: Mapping[str, int]
    run_waiting_s: float
    webhooks: Mapping[str, int]
    dead_letters: int
    snapshot_lag_events: int


OTHER = "other"
"""The SLA classes or flavors that are too many to be told one by one, as one: callers choose promises freely."""
ADMINS = "(admins)"
OTHERS = "(others)"
"""Names that no owner can have: owners begin with a letter or a digit."""
