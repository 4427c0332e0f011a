"""Calls about jobs, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.answer import Seconds
from tenure_client.forms.jobs import AttemptsAnswer, JobAnswer


def submit_job(
    cloud: str,
    job: str,
    flavor: str,
    lifetime_s: Seconds,
    *,
    count: int = 1,
    federate: str = "never",
    peers: Sequence[str] | None = None,
    on_preempted: str = "fail",
    eviction_probability: float | None = None,
    inputs: Sequence[tuple[str, int, str]] | None = None,
    outputs: Sequence[tuple[str, int]] | None = None,
    at: datetime | None = None,
) -> Call[JobAnswer]:
    """Submit a job of `count` instances, which run all or none.

    `inputs`: objects in the cloud's store that a peer gets a copy of, as key, bytes and SHA-256; `outputs`: objects
    that are fetched from a peer, as key and most bytes.

    Repeating the call shows the job as it is now; the same id with another body raises Conflict.
    """
    body = {
        "id": job,
        "flavor": flavor,
        "count": count,
        "lifetime_s": lifetime_s,
        "federate": federate,
        "peers": None if peers is None else [*peers],
        "on_preempted": on_preempted,
        "eviction_probability": eviction_probability,
        "inputs": None if inputs is None else [{"key": k, "bytes": n, "sha256": s} for k, n, s in inputs],
        "outputs": None if outputs is None else [{"key": k, "bytes": n} for k, n in outputs],
        "at": at,
    }
    return endpoints.SUBMIT_JOB.call(body=body, cloud=cloud)


def jobs(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[JobAnswer]:
    """List the cloud's jobs in the order of their submission."""
    return Listing(endpoints.JOBS.call(query={"limit": limit, "marker": marker}, cloud=cloud), lambda page: page.jobs)


def job(cloud: str, job: str) -> Call[JobAnswer]:
    """Show a job: where it runs, or how it ended."""
    return endpoints.JOB.call(cloud=cloud, job=job)


def attempts(cloud: str, job: str) -> Call[AttemptsAnswer]:
    """List the attempts to run a job at other clouds."""
    return endpoints.ATTEMPTS.call(cloud=cloud, job=job)


def cancel_job(cloud: str, job: str, *, at: datetime | None = None) -> Call[None]:
    """Stop all instances of a job. Nothing happens if it has ended."""
    return endpoints.CANCEL_JOB.call(query={"at": at}, cloud=cloud, job=job)
