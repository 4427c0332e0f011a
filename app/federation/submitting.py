"""Jobs as their users see them: submitted, shown, cancelled. Each change is decided in the line of its cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.domain.errors import IdNotOwn, JobConflict, JobNotFound
from app.domain.events import Event, JobRequested
from app.domain.jobs import Federate
from app.engine.cloud import Cloud, JobRecord
from app.federation.rules.homeside import decide_cancel, decide_job, is_same_job
from app.scheduling.scheduler import Scheduler


class JobBoard:
    """The jobs of all clouds."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def submit(self, cloud_name: str, asked: JobRequested, at_us: int | None) -> JobRecord:
        """Decide a job. The same job submitted again is shown as it is now. Raises JobConflict for another body."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            _check_own(cloud, asked.job, asked.owner)
            earlier = cloud.jobs.by_id.get(asked.job)
            if earlier is None:
                return decide_job(cloud, replace(asked, at_us=now_us))
            if not is_same_job(asked, earlier.asked):
                raise JobConflict(f"job {asked.job!r} was submitted before with another body")
            return []

        starts = tuple(f"{asked.job}.{number}" for number in range(1, asked.count + 1))
        await self._scheduler.change(cloud_name, decide, at_us, () if asked.federate is Federate.ONLY else starts)
        return await self.show(cloud_name, asked.job)

    async def show(self, cloud_name: str, name: str) -> JobRecord:
        """Return a job. Raises JobNotFound."""
        return _found(await self._scheduler.state(cloud_name), name)

    async def all(self, cloud_name: str) -> list[JobRecord]:
        """Return all jobs of a cloud in the order of their submission."""
        return [*(await self._scheduler.state(cloud_name)).jobs.by_id.values()]

    async def cancel(self, cloud_name: str, name: str, owner: str | None, at_us: int | None) -> None:
        """End a job, at once or, if a peer runs it, once the peer knows. Nothing happens if it has ended."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            _check_own(cloud, name, owner)
            return decide_cancel(cloud, _found(cloud, name), now_us)

        await self._scheduler.change(cloud_name, decide, at_us)


def _found(cloud: Cloud, name: str) -> JobRecord:
    job = cloud.jobs.by_id.get(name)
    if job is None:
        raise JobNotFound(f"there is no job {name!r}")
    return job


def _check_own(cloud: Cloud, name: str, owner: str | None) -> None:
    if owner is not None and not cloud.policy.shared_ids and not name.startswith(f"{owner}."):
        raise IdNotOwn(f"ids are not shared in this cloud: yours begin with {owner!r} and a dot")
