"""Jobs at the cloud that they were submitted to: which run there, all instances or none, and how they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.admission.decide import decide_start
from app.admission.kept import check_not_kept
from app.admission.limits import MOST_RUNNING, is_full
from app.domain.errors import InstanceConflict, TooManyInstances, TooManyJobs
from app.domain.events import (
    Event,
    InstanceRejected,
    InstanceStopped,
    JobAdmitted,
    JobCancelled,
    JobEnded,
    JobRequested,
)
from app.domain.flavors import check_flavor
from app.domain.jobs import AwayEnd, Federate
from app.domain.requests import StartRequest
from app.domain.values import Market
from app.engine.cloud import MOST_OPEN, Cloud, JobRecord

NO_CAPACITY = "no_capacity"
NO_PEERS = "no_peers"


def is_same_job(asked: JobRequested, earlier: JobRequested) -> bool:
    """Return True if a job was submitted before with the same body. The time and the settings are no part of it."""
    settings = ("at_us", "attempts", "answer_us", "hold_us", "margin_us", "stage_us")
    return asked == replace(earlier, **{name: getattr(asked, name) for name in settings})


def decide_job(cloud: Cloud, asked: JobRequested) -> Sequence[Event]:
    """Return the events that answer a job: its request, and then the starts of all its instances or of none.

    A job that does not run here has ended, unless there are peers to ask.
    """
    check_flavor(cloud.flavors, asked.flavor)
    if is_full(cloud, asked.count):
        raise TooManyInstances(f"{cloud.machine_count} instances run here, and {MOST_RUNNING} may: stop some")
    if cloud.jobs.size - cloud.jobs.size_ended >= MOST_OPEN:
        raise TooManyJobs(
            f"{len(cloud.jobs.open)} jobs have not ended, with as much data as they may have: cancel some"
        )
    found = None if asked.federate is Federate.ONLY else _starts(cloud, asked)
    if found is not None:
        return found
    if asked.peers:
        return [asked]
    reason = NO_CAPACITY if asked.federate is Federate.NEVER else NO_PEERS
    return [asked, _ended(asked.at_us, asked.job, AwayEnd.REJECTED, reason)]


def decide_cancel(cloud: Cloud, job: JobRecord, at_us: int) -> Sequence[Event]:
    """Return the events of a user's wish to have a job no more: its instances are stopped.

    One that is awarded to a peer has ended once the peer says so, or with its lease.
    """
    name = job.asked.job
    if job.ended_us is not None or job.away.is_cancelled:
        return []
    cancelled = JobCancelled(at_us=at_us, job=name)
    if job.is_native:
        running = [one for one in job.instance_ids() if one in cloud.running]
        stops = [InstanceStopped(at_us=at_us, instance_id=one) for one in running]
        return [cancelled, *stops, _ended(at_us, name, AwayEnd.CANCELLED if running else AwayEnd.COMPLETED)]
    return [cancelled] if job.away.wish() is not None else [cancelled, _ended(at_us, name, AwayEnd.CANCELLED)]


def decide_completed(cloud: Cloud, at_us: int) -> Sequence[Event]:
    """Return the ends of the jobs that ran here and of which nothing runs any more."""
    jobs = [cloud.jobs.by_id[name] for name in cloud.jobs.open]
    return [_ended(at_us, job.asked.job, AwayEnd.COMPLETED) for job in jobs if job.is_native and not job.left]


def _starts(cloud: Cloud, asked: JobRequested) -> Sequence[Event] | None:
    """Return the request, the admission and every start with its evictions; None if not all instances fit.

    Each start is decided over the state that those before it leave, and all of it is undone again.
    """
    found: list[Event] = [asked, JobAdmitted(at_us=asked.at_us, job=asked.job, count=asked.count)]
    with cloud.tried():
        for event in found:
            cloud.apply(event)
        for number in range(1, asked.count + 1):
            one = StartRequest(f"{asked.job}.{number}", Market.ON_DEMAND, asked.flavor, owner=asked.owner)
            if one.instance_id in cloud.running:
                raise InstanceConflict(f"instance {one.instance_id!r} was requested before")
            check_not_kept(cloud, one.instance_id)
            decided = decide_start(cloud, one, asked.at_us, None)
            if isinstance(decided[-1], InstanceRejected):
                return None
            for event in decided:
                cloud.apply(event)
            found += decided
    return found


def _ended(at_us: int, job: str, end: AwayEnd, reason: str | None = None) -> JobEnded:
    return JobEnded(at_us=at_us, job=job, attempt=0, end=end, is_last=True, reason=reason)
