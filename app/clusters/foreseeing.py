"""The next checkpoints of a cluster's running jobs, as the clouds' forecasts see them."""

from __future__ import annotations

from typing import NamedTuple

from app.clusters.advising import advise
from app.clusters.keeping import KnownCluster
from app.clusters.rules.advice import AdviceTerms
from app.clusters.rules.deciding import pool_of
from app.clusters.rules.told import JobStage, ToldJob
from app.domain.errors import TenureError
from app.domain.times import HOUR_US, SECOND_US
from app.forecasts.table_reads import TableReads
from app.scheduling.scheduler import Scheduler

MOST_FORESEEN = 10


class ForeseenCheckpoint(NamedTuple):
    """A job's next checkpoint from now, None if none is worth its pause, and its hazard now, in evictions an hour."""

    next_us: int | None
    hazard: float


class Foreseeing:
    """Asks the forecasts in force for the jobs that save themselves, which say for how long that stops them."""

    def __init__(self, scheduler: Scheduler, tables: TableReads) -> None:
        self._scheduler, self._tables = scheduler, tables

    async def checkpoints(self, cluster: KnownCluster) -> dict[str, ForeseenCheckpoint]:
        """Return what is foreseen by job, for the first jobs that run on one node each; others have no forecast."""
        clouds = {pool.name: pool.cloud for pool in cluster.spec.pools}
        running = [job for job in cluster.past.jobs.values() if job.stage is JobStage.RUNNING and job.pause_s]
        found = {}
        for job in running[:MOST_FORESEEN]:
            cloud = clouds.get(pool_of(job.nodes[0])) if len(job.nodes) == 1 else None
            if cloud is not None and (one := await self._foresee(job, cloud)) is not None:
                found[job.job] = one
        return found

    async def _foresee(self, job: ToldJob, cloud: str) -> ForeseenCheckpoint | None:
        try:
            table = await self._tables.newest(cloud)
            state, now_us = await self._scheduler.present(cloud)
            if table is None or table.seq > state.seq:
                return None
            pause_us = (job.pause_s or 0.0) * SECOND_US
            at_risk_us = max(now_us - (job.safe_us or now_us), 0)
            terms = AdviceTerms(pause_us, pause_us, 0.0, at_risk_us)
            found = advise(state, table, job.nodes[0].replace("-", ".", 1), terms, now_us)
        except TenureError:
            return None
        times = found.plan.checkpoints_us
        return ForeseenCheckpoint(round(times[0]) if times else None, float(found.hazards.rates[0]) * HOUR_US)
