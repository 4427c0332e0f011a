"""Metrics of clusters, from what their managers told and from the logs of their clouds, at scrape time.

Every process returns the same values, so one process is scraped for the whole service. There are at most 100 clusters,
and each has at most 16 pools; no label names a node or a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app.clusters.costing import ClusterCosts
from app.clusters.keeping import MOST_CLUSTERS, ClusterKeeper, KnownCluster
from app.clusters.rules.costs import MICRO, ClusterCost
from app.clusters.rules.told import OTHER, JobStage, LengthTally, NodeStage
from app.domain.errors import TenureError
from app.domain.times import SECOND_US

_ByLabels = Mapping[tuple[str, ...], float | None]
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class ClusterFacts(NamedTuple):
    """All that is told of a cluster. cost: None where a cloud's log could not be read."""

    cluster: KnownCluster
    cost: ClusterCost | None


class ClusterFamily(NamedTuple):
    """One metric: its name after `tenure_cluster_`, its labels after `cluster`, and its values by those labels."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    what: str
    labels: tuple[str, ...]
    values: Callable[[ClusterFacts], _ByLabels]

    def of(self, clusters: Iterable[ClusterFacts]) -> Metric:
        """Return the metric's samples of these clusters; values that are None have none."""
        metric = self.kind(f"tenure_cluster_{self.name}", self.what, labels=["cluster", *self.labels])
        for facts in clusters:
            for labels, value in self.values(facts).items():
                if value is not None:
                    metric.add_metric([facts.cluster.stored.name, *labels], value)
        return metric


def _nodes(facts: ClusterFacts) -> _ByLabels:
    pools = [pool.name for pool in facts.cluster.spec.pools]
    counts = Counter(
        (node.pool if node.pool in pools else OTHER, str(node.stage)) for node in facts.cluster.past.there()
    )
    stages = [stage for stage in NodeStage if stage is not NodeStage.GONE]
    found: dict[tuple[str, ...], float | None] = {(pool, str(stage)): 0.0 for pool in pools for stage in stages}
    found.update({key: float(count) for key, count in counts.items()})
    return found


def _jobs(facts: ClusterFacts) -> _ByLabels:
    counts = Counter(job.stage for job in facts.cluster.past.jobs.values())
    return {(str(stage),): counts[stage] for stage in JobStage if stage is not JobStage.ENDED}


def _look_age_s(facts: ClusterFacts) -> float | None:
    age_us = facts.cluster.look_age_us
    return None if age_us is None or facts.cluster.past.deleted_us is not None else age_us / SECOND_US


def _costs(facts: ClusterFacts) -> _ByLabels:
    rows = () if facts.cost is None else facts.cost.pools
    return {(row.pool,): row.cost_micro / MICRO for row in rows}


def _on_demand_costs(facts: ClusterFacts) -> _ByLabels:
    rows = () if facts.cost is None else facts.cost.pools
    return {(row.pool,): None if row.on_demand_micro is None else row.on_demand_micro / MICRO for row in rows}


def _one(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    what: str,
    value: Callable[[ClusterFacts], float | None],
) -> ClusterFamily:
    return ClusterFamily(kind, name, what, (), lambda facts: {(): value(facts)})


CLUSTER_FAMILIES = (
    ClusterFamily(_GAUGE, "nodes", "Nodes that are there, by what they do.", ("pool", "state"), _nodes),
    ClusterFamily(_GAUGE, "jobs", "Jobs that wait or run.", ("state",), _jobs),
    ClusterFamily(
        _COUNTER,
        "checkpoints_total",
        "Checkpoints: `written`, `failed`, or `asked` of a job that saves itself.",
        ("why", "result"),
        lambda facts: {key: float(count) for key, count in facts.cluster.past.checkpoints.items()},
    ),
    _one(
        _COUNTER,
        "work_lost_seconds_total",
        "Work of jobs that had to be done again, since the last checkpoint or the start.",
        lambda facts: facts.cluster.past.lost_s,
    ),
    ClusterFamily(
        _COUNTER,
        "restores_total",
        "Jobs that went on from a checkpoint: `restored` or `failed`.",
        ("result",),
        lambda facts: {(name,): facts.cluster.past.restores[name] for name in ("restored", "failed")},
    ),
    _one(
        _COUNTER,
        "orphans_total",
        "Machines without an instance that the manager destroyed.",
        lambda facts: facts.cluster.past.orphans,
    ),
    _one(
        _GAUGE,
        "orphans_now",
        "Machines without an instance at the manager's newest look; absent before the first.",
        lambda facts: facts.cluster.stored.orphan_count,
    ),
    ClusterFamily(_COUNTER, "cost_total", "Cost of the instances so far, at the pool's price.", ("pool",), _costs),
    ClusterFamily(
        _COUNTER,
        "on_demand_cost_total",
        "What the same time would have cost on demand; absent where that price is not known.",
        ("pool",),
        _on_demand_costs,
    ),
    _one(
        _GAUGE,
        "manager_loop_seconds",
        "How long the manager's newest look took, with what it did then; absent before the first.",
        lambda facts: facts.cluster.stored.loop_s,
    ),
    _one(
        _GAUGE,
        "manager_look_age_seconds",
        "Time since the manager told of a look; absent before the first, and of a deleted cluster.",
        _look_age_s,
    ),
)


class ClusterCollector(Collector):
    """All metrics of the clusters."""

    def __init__(self, clusters: Iterable[ClusterFacts]) -> None:
        self._clusters = tuple(clusters)

    def collect(self) -> Iterator[Metric]:
        """Yield one metric after the other."""
        for family in CLUSTER_FAMILIES:
            yield family.of(self._clusters)
        yield self._lengths(
            "checkpoint_seconds", "For how long a checkpoint that was written stopped its job.", "checkpoint_s"
        )
        yield self._lengths("boot_seconds", "From the purchase of a node until it joined Slurm.", "boot_s")

    def _lengths(self, name: str, what: str, tally: str) -> Metric:
        metric = HistogramMetricFamily(f"tenure_cluster_{name}", what, labels=["cluster"])
        for facts in self._clusters:
            found: LengthTally = getattr(facts.cluster.past, tally)
            metric.add_metric([facts.cluster.stored.name], found.cumulative(), found.total_s)
        return metric


async def collected_clusters(keeper: ClusterKeeper, costs: ClusterCosts) -> ClusterCollector:
    """Return the metrics of all clusters. A cloud that is silent only hides costs."""
    found = []
    for cluster in (await keeper.list(None, MOST_CLUSTERS)).items:
        try:
            cost = await costs.read(cluster)
        except TenureError:
            cost = None
        found.append(ClusterFacts(cluster, cost))
    return ClusterCollector(found)
