"""The next checkpoints of a cluster's running jobs, as the clouds' forecasts see them."""

from __future__ import annotations

from typing import NamedTuple

from app.clusters.advising import Advice, advise
from app.clusters.bid_costing import words_of
from app.clusters.described import PoolSpec
from app.clusters.keeping import KnownCluster
from app.clusters.rules.advice import AdviceTerms
from app.clusters.rules.deciding import pool_of
from app.clusters.rules.told import JobStage, ToldJob
from app.clusters.venue_advising import BidAdvice, BidAdvising, BidQuestion
from app.domain.errors import TenureError
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.forecasts.table_reads import TableReads
from app.scheduling.scheduler import Scheduler

MOST_FORESEEN = 10


class ForeseenCheckpoint(NamedTuple):
    """A job's next checkpoint from now, None if none is worth its pause, and its hazard now, in evictions an hour."""

    next_us: int | None
    hazard: float


class Foreseeing:
    """Asks the forecasts in force for the jobs that save themselves, which say for how long that stops them."""

    def __init__(self, scheduler: Scheduler, tables: TableReads, bids: BidAdvising) -> None:
        self._scheduler, self._tables, self._bids = scheduler, tables, bids

    async def checkpoints(self, cluster: KnownCluster) -> dict[str, ForeseenCheckpoint]:
        """Return what is foreseen by job, for the first jobs that run on one node each; others have no forecast."""
        pools = {pool.name: pool for pool in cluster.spec.pools}
        running = [job for job in cluster.past.jobs.values() if job.stage is JobStage.RUNNING and job.pause_s]
        found = {}
        for job in running[:MOST_FORESEEN]:
            pool = pools.get(pool_of(job.nodes[0])) if len(job.nodes) == 1 else None
            if pool is not None and (one := await self._foresee(cluster, job, pool)) is not None:
                found[job.job] = one
        return found

    async def _foresee(self, cluster: KnownCluster, job: ToldJob, pool: PoolSpec) -> ForeseenCheckpoint | None:
        try:
            found = await (self._under_bid(cluster, job, pool) if pool.is_bid else self._of_cloud(job, pool.cloud))
        except TenureError:
            return None
        if found is None:
            return None
        times = found.plan.checkpoints_us
        return ForeseenCheckpoint(round(times[0]) if times else None, float(found.hazards.rates[0]) * HOUR_US)

    async def _of_cloud(self, job: ToldJob, cloud: str) -> Advice | None:
        table = await self._tables.newest(cloud)
        state, now_us = await self._scheduler.present(cloud)
        if table is None or table.seq > state.seq:
            return None
        return advise(state, table, job.nodes[0].replace("-", ".", 1), _terms(job, now_us), now_us)

    async def _under_bid(self, cluster: KnownCluster, job: ToldJob, pool: PoolSpec) -> BidAdvice | None:
        bid = cluster.past.bids.running(job.nodes[0])
        if bid is None or not bid.bid:
            return None
        age_us = max(cluster.now_us - bid.from_us, 0)
        asked = BidQuestion(bid.bid, age_us, DAY_US, round(bid.notice_s * SECOND_US))
        return await self._bids.advise(pool.cloud, words_of(pool), asked, _terms(job, cluster.now_us))


def _terms(job: ToldJob, now_us: int) -> AdviceTerms:
    pause_us = (job.pause_s or 0.0) * SECOND_US
    return AdviceTerms(pause_us, pause_us, 0.0, max(now_us - (job.safe_us or now_us), 0))
