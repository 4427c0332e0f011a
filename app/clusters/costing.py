"""The costs of clusters, from the logs of their clouds. Each log is read once; a later look reads what came since."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.clusters.bid_costing import BidCosts
from app.clusters.keeping import KnownCluster
from app.clusters.rules.costs import ClusterCost, cost_of
from app.clusters.rules.deciding import pool_of
from app.clusters.store.instances import started, started_as
from app.domain.events import Recorded
from app.platform.asked import TurnsAtEach
from app.scheduling.rules.instances import end_in
from app.scheduling.scheduler import Scheduler
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import NO_EVENT, EventLog, EventMark

_LOGS_KEPT, _LOGS_AT_ONCE = 400, 2
_AT_ONCE = 10_000


@dataclass(slots=True)
class _PoolTimes:
    """Instances of a pool in one cloud: how many there were, and the time of those that ended."""

    count: int = 0
    ended_us: int = 0


@dataclass(slots=True)
class _OfLog:
    """The instances of a cluster in one cloud's log up to an event: times by pool, and those that run since when.

    pools: of the instances whose ids do not name their pool, as far as they have been counted.
    """

    mark: EventMark = NO_EVENT
    pools: dict[str, str] = field(default_factory=dict)
    times: defaultdict[str, _PoolTimes] = field(default_factory=lambda: defaultdict(_PoolTimes))
    running: dict[str, int] = field(default_factory=dict)


class ClusterCosts:
    """Costs of clusters, now. Raises CloudNotFound and LogUnavailable."""

    def __init__(self, clouds: Clouds, log: EventLog, scheduler: Scheduler, bids: BidCosts) -> None:
        self._clouds, self._log, self._scheduler, self._bids = clouds, log, scheduler, bids
        self._logs = OrderedDict[tuple[str, int], _OfLog]()
        self._turns = TurnsAtEach(_LOGS_AT_ONCE)

    async def read(self, cluster: KnownCluster) -> ClusterCost:
        """Return what the instances of a cluster cost up to now, at the prices of now.

        An instance is the cluster's if its id begins with the cluster's name and a dot; its pool is the next word. One
        with another id, as servers have, is the cluster's if its manager told that it bought it. An instance's time is
        from its start to its stop or eviction. What it runs on after that, as a notice allows, is not counted.
        Machines of venues are billed as their provider does.
        """
        counts, used = defaultdict[str, int](int), defaultdict[str, int](int)
        for cloud in cluster.spec.clouds:
            _, now_us = await self._scheduler.present(cloud)
            key = cluster.stored.name, await self._clouds.id_of(cloud)
            async with self._turns.taken(key):
                found = await self._up_to_date(key, _servers(cluster, cloud))
                for pool, times in found.times.items():
                    counts[pool] += times.count
                    used[pool] += times.ended_us
                for instance, from_us in found.running.items():
                    used[found.pools.get(instance) or _pool(instance)] += max(now_us - from_us, 0)
        prices = [pool.price for pool in cluster.spec.pools]
        bills = await self._bids.read(cluster)
        return cost_of(prices, {pool: (counts[pool], used[pool]) for pool in counts}, bills)

    async def _up_to_date(self, key: tuple[str, int], told: Mapping[str, str]) -> _OfLog:
        name, cloud_id = key
        found = self._logs.get(key, _OfLog())
        mark, is_same_log = await self._log.look(cloud_id, found.mark)
        if not is_same_log:
            found = _OfLog()
        late = {instance: pool for instance, pool in told.items() if instance not in found.pools}
        if mark != found.mark or late:
            await self._read_on(found, name, cloud_id, mark, late)
        self._logs[key] = found
        self._logs.move_to_end(key)
        while len(self._logs) > _LOGS_KEPT:
            self._logs.popitem(last=False)
        return found

    async def _read_on(self, found: _OfLog, name: str, cloud_id: int, mark: EventMark, late: Mapping[str, str]) -> None:
        """Take in what the log has up to a mark, and those told late that are in it. All is read, then counted."""
        begun = await started(self._log, cloud_id, f"{name}.", found.mark.seq, mark.seq)
        begun_late = await started_as(self._log, cloud_id, [*late], mark.seq) if late else []
        ids, ends = [*found.running, *(instance for instance, _ in (*begun, *begun_late))], dict[str, Recorded]()
        for first in range(0, len(ids), _AT_ONCE):
            ends |= await self._log.ends(cloud_id, ids[first : first + _AT_ONCE])
        found.pools |= {instance: late[instance] for instance, _ in begun_late}
        for instance, at_us in (*begun, *begun_late):
            found.running[instance] = at_us
            found.times[found.pools.get(instance) or _pool(instance)].count += 1
        for instance, recorded in ends.items():
            end = end_in(recorded)
            if end is not None and recorded.seq <= mark.seq:
                times = found.times[found.pools.get(instance) or _pool(instance)]
                times.ended_us += max(end.at_us - found.running.pop(instance), 0)
        found.mark = mark


def _servers(cluster: KnownCluster, cloud: str) -> dict[str, str]:
    """Return the pools of the instances that were told by their ids, in one cloud."""
    here = {pool.name for pool in cluster.spec.pools if pool.cloud == cloud}
    told = {instance: pool_of(node) for node, instance in cluster.past.servers.items()}
    return {instance: pool for instance, pool in told.items() if pool in here}


def _pool(instance: str) -> str:
    """Return the pool in an instance's id, `cluster.pool-number`."""
    return instance.partition(".")[2].partition("-")[0]
