"""Per-cloud gauges and counters, computed from log state and database at scrape time.

Every process returns the same values, so one process is scraped for the whole service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.domain.budgets import BudgetUnit
from app.observing.facts import ClassFacts, CloudFacts, EstimateFacts, OwnerFacts, StandingFacts

MetricKind = type[CounterMetricFamily] | type[GaugeMetricFamily]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name after `tenure_cloud_`, its labels after `cloud`, and its values by those labels."""

    kind: MetricKind
    name: str
    what: str
    labels: tuple[str, ...]
    values: Callable[[CloudFacts], Mapping[tuple[str, ...], float | None]]

    def of(self, clouds: Iterable[CloudFacts]) -> CounterMetricFamily | GaugeMetricFamily:
        """Return the metric's samples of these clouds; clouds whose value is None have none."""
        metric = self.kind(f"tenure_cloud_{self.name}", self.what, labels=["cloud", *self.labels])
        for cloud in clouds:
            for labels, value in self.values(cloud).items():
                if value is not None:
                    metric.add_metric([cloud.name, *labels], value)
        return metric


def _one(kind: MetricKind, name: str, what: str, value: Callable[[CloudFacts], float | None]) -> Family:
    return Family(kind, name, what, (), lambda cloud: {(): value(cloud)})


def _by(
    label: str, kind: MetricKind, name: str, what: str, values: Callable[[CloudFacts], Mapping[str, int]]
) -> Family:
    return Family(kind, name, what, (label,), lambda cloud: {(key,): value for key, value in values(cloud).items()})


def _of_class(kind: MetricKind, name: str, what: str, value: Callable[[ClassFacts], float | None]) -> Family:
    return Family(
        kind, f"sla_{name}", what, ("class",), lambda cloud: {(one.name,): value(one) for one in cloud.classes}
    )


def _book_left(name: str, what: str, unit: BudgetUnit) -> Family:
    return Family(
        _GAUGE,
        name,
        what,
        ("class", "stratum"),
        lambda cloud: {
            (one.name, name): left for one in cloud.classes if one.unit is unit for name, left in one.books.items()
        },
    )


_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_STANDINGS: tuple[tuple[str, str, Callable[[StandingFacts], float | None]], ...] = (
    ("promised_ratio", "eviction probability promised, on average", lambda one: one.promised),
    ("admitted_instances", "spot starts accepted with a promise", lambda one: one.admitted),
    ("evicted_instances", "of those admitted, evicted within their declared lifetime", lambda one: one.evicted),
    ("eviction_ratio_low", "lower bound of evicted / admitted (Clopper and Pearson, 95 %)", lambda one: one.low),
    ("admitted_core_seconds", "core-seconds admitted, as declared", lambda one: one.core_s),
    ("lost_core_seconds", "of them, those of instances evicted within their lifetime", lambda one: one.lost_core_s),
    ("overran_instances", "of those admitted, ran on after their declared lifetime", lambda one: one.overran),
    ("overrun_evicted_instances", "of those that overran, evicted then", lambda one: one.overrun_evicted),
)
"""Gauges, because an extension takes an instance from one stratum into another."""


def _of_strata(name: str, what: str, value: Callable[[StandingFacts], float | None]) -> Family:
    told = f"By class and stratum of lifetimes: {what}."
    return Family(
        _GAUGE,
        f"stratum_{name}",
        told,
        ("class", "stratum"),
        lambda cloud: {(one.of_class, one.name): value(one) for one in cloud.strata},
    )


_OWNERS: tuple[tuple[str, str, Callable[[OwnerFacts], float | None]], ...] = (
    ("running_instances", "spot instances that run", lambda one: one.running),
    ("running_cores", "cores of the spot instances that run", lambda one: one.cores),
    (
        "overrunning_cores",
        "of them, those of instances beyond their declared lifetime",
        lambda one: one.overrunning_cores,
    ),
    ("quota_cores", "cores that the quota allows; absent where they are not limited", lambda one: one.quota_cores),
    ("admitted_instances", "spot starts accepted", lambda one: one.admitted),
    ("evicted_instances", "of those admitted, evicted within their declared lifetime", lambda one: one.evicted),
    ("overran_instances", "of those admitted, ran on after their declared lifetime, or do", lambda one: one.overran),
)
"""Gauges, because an owner that is no longer among the largest is told among the others."""


_ESTIMATES: tuple[tuple[str, str, Callable[[EstimateFacts], float | None]], ...] = (
    ("cases", "instances whose outcome is known, in the newest 50,000 events", lambda one: one.cases),
    ("evicted_instances", "of them, evicted within the lifetime declared at the start", lambda one: one.evicted),
    ("said_ratio", "their mean estimate", lambda one: one.said),
    ("log_loss", "log loss of their estimates", lambda one: one.log_loss),
    ("constant_log_loss", "log loss of the best constant, known in hindsight only", lambda one: one.constant_log_loss),
    ("bound_epochs", "epochs with bounds", lambda one: one.epochs),
    ("bound_held_epochs", "of them, those in which no more was evicted than the bounds said", lambda one: one.covered),
)


def _of_estimates(name: str, what: str, value: Callable[[EstimateFacts], float | None]) -> Family:
    told = f"Of all estimates and by stratum of lifetimes, some minutes old: {what}."
    return Family(
        _GAUGE,
        f"estimate_{name}",
        told,
        ("stratum",),
        lambda cloud: {(one.name,): value(one) for one in cloud.estimates},
    )


def _of_owners(name: str, what: str, value: Callable[[OwnerFacts], float | None]) -> Family:
    told = f"By owner, the largest, `(admins)` and `(others)`: {what}."
    return Family(
        _GAUGE, f"owner_{name}", told, ("owner",), lambda cloud: {(one.name,): value(one) for one in cloud.owners}
    )


def _of_flavors(name: str, what: str, value: Callable[[StandingFacts], float | None]) -> Family:
    told = f"By flavor, the largest and `other`: {what}."
    return Family(
        _GAUGE, f"flavor_{name}", told, ("flavor",), lambda cloud: {(one.name,): value(one) for one in cloud.flavors}
    )


ANSWERING = _one(
    _GAUGE, "answering", "1 where the cloud's state could be read in time; 0: nothing else is told of it.", lambda _: 1
)
FAMILIES = (
    ANSWERING,
    _one(_COUNTER, "log_events_total", "Events in the cloud's log.", lambda c: c.log_events),
    _one(
        _GAUGE,
        "log_ahead_seconds",
        "How far the time of the cloud's log is ahead of the database's clock; absent with an external clock.",
        lambda c: c.log_ahead_s,
    ),
    _by("market", _COUNTER, "instances_requested_total", "Starts decided since the log began.", lambda c: c.requested),
    _by(
        "market",
        _GAUGE,
        "admitted_instances",
        "Starts accepted since the log began, but for aborted ones.",
        lambda c: c.admitted,
    ),
    _one(_COUNTER, "instances_evicted_total", "Spot instances evicted since the log began.", lambda c: c.evicted),
    _one(_COUNTER, "instances_drilled_total", "Spot instances evicted as a drill.", lambda c: c.drilled),
    _by("market", _GAUGE, "instances_running", "Instances that run now.", lambda c: c.running),
    _one(_GAUGE, "instances_at_risk", "Spot instances that a notice of risk stands for.", lambda c: c.at_risk),
    _by(
        "status",
        _GAUGE,
        "instances_wanting",
        "Spot instances that want a longer lifetime than they are promised: `open`, or `told` that the promise ends.",
        lambda c: c.wanting,
    ),
    _by(
        "status",
        _GAUGE,
        "handovers",
        "Evicted instances that no controller has confirmed as stopped: `pending`, or `overdue` past their deadline.",
        lambda c: c.handovers,
    ),
    _of_class(_GAUGE, "promised_ratio", "Eviction probability promised; of `other`, the mean.", lambda k: k.promised),
    _of_class(
        _GAUGE,
        "admitted_instances",
        "Spot starts accepted with this promise, but for aborted ones.",
        lambda k: k.admitted,
    ),
    _of_class(
        _COUNTER,
        "instances_evicted_total",
        "Of those admitted, evicted within their declared lifetime; drills are not counted.",
        lambda k: k.evicted,
    ),
    _of_class(_GAUGE, "instances_running", "Of those admitted, running within it still.", lambda k: k.running),
    _of_class(
        _GAUGE,
        "eviction_ratio",
        "Evicted so far of those admitted: the SLA is kept while it is not above the promise; absent before the first.",
        lambda k: k.evicted / k.admitted if k.admitted else None,
    ),
    _of_class(
        _GAUGE, "eviction_ratio_low", "Lower bound of eviction_ratio (Clopper and Pearson, 95 %).", lambda k: k.low
    ),
    _of_class(_GAUGE, "eviction_ratio_high", "Upper bound of the same.", lambda k: k.high),
    _of_class(
        _GAUGE,
        "budget_left_instances",
        "Evictions that the promise still allows, less what running instances are charged; below 0 in debt.",
        lambda k: k.left,
    ),
    _of_class(
        _GAUGE,
        "budget_left_core_hours",
        "Core-hours that the promise still allows to be lost, less charges; absent unless budgets count core-hours.",
        lambda k: k.left_by_unit if k.unit is BudgetUnit.CORE_HOURS else None,
    ),
    _book_left(
        "sla_book_left_instances",
        "Under the stratified guarantee: evictions that a stratum's book has left; below 0 it is in debt.",
        BudgetUnit.INSTANCES,
    ),
    _book_left(
        "sla_book_left_core_hours", "The same in core-hours, where the policy counts these.", BudgetUnit.CORE_HOURS
    ),
    *(_of_strata(*one) for one in _STANDINGS),
    *(_of_flavors(*one) for one in _STANDINGS),
    _one(_GAUGE, "owners", "Owners that have started spot instances, or have a quota.", lambda c: c.owner_count),
    *(_of_owners(*one) for one in _OWNERS),
    *(_of_estimates(*one) for one in _ESTIMATES),
    _by("status", _GAUGE, "nodes", "Nodes by status; removed ones are not counted.", lambda c: c.nodes),
    _by("status", _GAUGE, "capacity_cores", "Cores of the nodes, by the nodes' status.", lambda c: c.capacity_cores),
    _by("market", _GAUGE, "used_cores", "Cores that running instances take.", lambda c: c.used_cores),
    _by("flavor", _GAUGE, "available_slots", "How many more instances of the flavor fit now.", lambda c: c.slots),
    _one(_GAUGE, "table_epoch", "Epoch of the newest quantile table; absent before the first.", lambda c: c.epoch),
    _one(
        _GAUGE,
        "table_age_seconds",
        "Age of the newest quantile table's history by the cloud's own clock; absent before the first.",
        lambda c: c.table_age_s,
    ),
    _one(
        _GAUGE,
        "table_max_age_seconds",
        "Age beyond which spot starts are rejected with `quotes_stale`.",
        lambda c: c.table_max_age_s,
    ),
    _one(
        _GAUGE,
        "table_computing_seconds",
        "Time that the newest quantile table took to compute.",
        lambda c: c.table_computing_s,
    ),
    _by(
        "status",
        _GAUGE,
        "runs",
        "Recomputations: `pending`, `running`, and `failed` since the newest table was published.",
        lambda c: c.runs,
    ),
    _one(
        _GAUGE,
        "run_waiting_seconds",
        "How long the oldest pending recomputation has waited; 0 where none waits.",
        lambda c: c.run_waiting_s,
    ),
    _by("status", _GAUGE, "webhooks", "Webhooks: `active` or `paused`.", lambda c: c.webhooks),
    _one(_GAUGE, "webhook_dead_letters", "Events that no receiver took, to be replayed.", lambda c: c.dead_letters),
    _one(
        _GAUGE,
        "snapshot_lag_events",
        "Events in the log after the newest snapshot: what a starting process folds.",
        lambda c: c.snapshot_lag_events,
    ),
)


class CloudCollector(Collector):
    """All metrics of the clouds that answered. `silent` names the clouds that did not."""

    def __init__(self, clouds: Iterable[CloudFacts], silent: Iterable[str]) -> None:
        self._clouds = tuple(clouds)
        self._silent = tuple(silent)

    def collect(self) -> Iterator[Metric]:
        """Yield one metric after the other."""
        for family in FAMILIES:
            metric = family.of(self._clouds)
            if family is ANSWERING:
                for name in self._silent:
                    metric.add_metric([name], 0)
            yield metric
