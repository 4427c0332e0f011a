"""Bodies and answers of jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.events import JobRequested
from app.domain.jobs import LONGEST_JOB_ID, MOST_JOB_INSTANCES, AwayEnd, Federate, OnPreempted
from app.domain.times import seconds, to_datetime
from app.engine.cloud import JobRecord, Try
from app.platform.http.fields import AT, WHOLE, Body, Name, PositiveSeconds, Probability, Time
from tenure_client.forms.answer import Link
from tenure_client.forms.jobs import AttemptAnswer, JobAnswer

MOST_PEERS = 64
JobName = Annotated[Name, Field(max_length=LONGEST_JOB_ID)]


class JobBody(Body):
    """A job: a group of equal instances that run all or none."""

    id: JobName
    flavor: Name
    count: Annotated[int, Field(ge=1, le=MOST_JOB_INSTANCES), WHOLE] = 1
    lifetime_us: PositiveSeconds = Field(description="The longest that it runs.")
    federate: Federate = Field(
        Federate.NEVER,
        strict=False,
        description="Whether other clouds may run it: `allowed` where it does not fit here, `only` there.",
    )
    peers: Annotated[list[Name], Field(max_length=MOST_PEERS)] | None = Field(
        None, description="Whom it may be offered to, in this order; by default all peers, by name."
    )
    on_preempted: OnPreempted = Field(
        OnPreempted.FAIL, strict=False, description="What follows when a peer needs its room."
    )
    probability: Probability | None = Field(
        None, description="The largest probability of preemption at a peer; by default the peer's own."
    )
    at_us: Time | None = Field(None, description=AT)

    def asked(self, owner: str | None) -> JobRequested:
        """Return the job as it is asked for. Its time comes with the decision."""
        return JobRequested(
            at_us=0,
            job=self.id,
            flavor=self.flavor,
            count=self.count,
            lifetime_us=self.lifetime_us,
            federate=self.federate,
            on_preempted=self.on_preempted,
            eviction_probability=self.probability,
            owner=owner,
        )


def job_answer(cloud: str, job: JobRecord) -> JobAnswer:
    """Return the wire form of a job."""
    asked, away = job.asked, job.away
    has_run = job.is_native and not job.left
    end = away.end or (AwayEnd.COMPLETED if has_run else None)
    where = "here" if job.is_native else away.asked.get(away.attempt) if away.wish() else None
    path = f"/v1/clouds/{cloud}/jobs/{asked.job}"
    return JobAnswer(
        id=asked.job,
        flavor=asked.flavor,
        count=asked.count,
        lifetime_s=seconds(asked.lifetime_us),
        federate=asked.federate,
        on_preempted=asked.on_preempted,
        eviction_probability=asked.eviction_probability,
        peers=[*asked.peers],
        status="ended" if end is not None else "running" if job.is_native else away.state.value,
        where=where,
        end=end,
        reason=job.reason,
        attempt=away.attempt,
        running=job.left,
        instances=[*job.instance_ids()],
        cancelled=away.is_cancelled,
        requested_at=to_datetime(asked.at_us),
        ended_at=None if job.ended_us is None else to_datetime(job.ended_us),
        links=[Link(rel="self", href=path), Link(rel="attempts", href=f"{path}/attempts")],
    )


def attempt_answer(tried: Try) -> AttemptAnswer:
    """Return the wire form of an attempt."""
    return AttemptAnswer(
        attempt=tried.number,
        peer=tried.peer,
        offered_at=to_datetime(tried.offered_us),
        awarded_at=None if tried.awarded_us is None else to_datetime(tried.awarded_us),
        reclaim_at=None if tried.reclaim_us is None else to_datetime(tried.reclaim_us),
        ended_at=None if tried.ended_us is None else to_datetime(tried.ended_us),
        outcome=tried.outcome,
        why=tried.why,
        eviction_probability=tried.eviction_probability,
    )
