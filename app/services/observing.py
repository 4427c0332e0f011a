"""What is so of every cloud right now, for whoever watches the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import numpy as np

from app.domain.values import Clock, Market, NodeStatus
from app.engine.cloud import Cloud
from app.engine.cluster import NO_NODE
from app.services.scheduler import Scheduler
from app.store.observations import Observation, Observations
from app.telemetry.clouds import CloudFacts

KEPT_S = 1.0
"""Who asks again this soon gets the same answer, so that nobody can keep the service busy with looking at itself."""
_SECOND_US = 1_000_000


class Observing:
    """Reads the state of all clouds as of their logs' ends. `now_us` is the server's clock."""

    def __init__(self, scheduler: Scheduler, observations: Observations, now_us: Callable[[], int]) -> None:
        self._scheduler = scheduler
        self._observations = observations
        self._now_us = now_us
        self._looking = asyncio.Lock()
        self._seen: tuple[CloudFacts, ...] = ()
        self._seen_until = 0.0

    async def clouds(self) -> tuple[CloudFacts, ...]:
        """Every cloud, by name; not older than a second."""
        async with self._looking:
            if monotonic() >= self._seen_until:
                self._seen = tuple([await self._look(found) for found in await self._observations.all()])
                self._seen_until = monotonic() + KEPT_S
            return self._seen

    async def _look(self, found: Observation) -> CloudFacts:
        return facts_of(await self._scheduler.state(found.cloud), found, self._now_us())


def facts_of(cloud: Cloud, found: Observation, now_us: int) -> CloudFacts:
    """What the state and the database say together."""
    policy, counts = cloud.policy, cloud.counts
    present_us = cloud.at_us if policy.clock is Clock.EXTERNAL else max(now_us, cloud.at_us)
    capacity = _capacity(cloud)
    running, used = _running(cloud)
    return CloudFacts(
        name=found.cloud,
        log_events=cloud.seq,
        requested={Market.ON_DEMAND: counts.on_demand_requested, Market.SPOT: counts.spot_requested},
        admitted={Market.ON_DEMAND: counts.on_demand_admitted, Market.SPOT: counts.spot_admitted},
        evicted=counts.spot_evicted,
        running=running,
        nodes={status: len(cores) for status, cores in capacity.items()},
        capacity_cores={status: sum(cores) for status, cores in capacity.items()},
        used_cores=used,
        slots={flavor: cloud.available_slots(flavor) for flavor in cloud.flavors},
        epoch=found.epoch,
        table_age_s=None if found.epoch_us is None else max(0, present_us - found.epoch_us) / _SECOND_US,
        table_max_age_s=policy.table_max_age_us / _SECOND_US,
        table_computing_s=found.wall_s,
        runs={"pending": found.pending, "running": found.running, "failed": found.failed},
        run_waiting_s=found.waiting_s,
        snapshot_lag_events=max(0, cloud.seq - found.snapshot_seq),
    )


def _capacity(cloud: Cloud) -> dict[str, list[int]]:
    """The cores of each node, by status."""
    cores: dict[str, list[int]] = {NodeStatus.OPEN: [], NodeStatus.DRAINED: []}
    for node in cloud.nodes.values():
        if node.status is not NodeStatus.REMOVED:
            cores[node.status].append(node.capacity.cores)
    return cores


def _running(cloud: Cloud) -> tuple[dict[str, int], dict[str, int]]:
    """How many instances run, and the cores that they take, by market."""
    cluster = cloud.cluster
    runs = cluster.node_of != NO_NODE
    counts, cores = {}, {}
    for market in Market:
        rows = runs & (cluster.is_spot == (market is Market.SPOT))
        counts[market.value] = int(np.count_nonzero(rows))
        cores[market.value] = int(cluster.demand[rows, 0].sum())
    return counts, cores
