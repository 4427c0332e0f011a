"""The endpoints of jobs with their handlers, a part of the table of all endpoints."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.federation import http as jobs
from app.federation import wire as job_wire
from app.platform.http.page_forms import PageQuery
from app.platform.http.serving import Served
from app.scheduling.wire.nodes import AtQuery
from tenure_client import endpoints

_CHANGE = (
    errors.TimeUnexpected,
    errors.TimeBackwards,
    errors.TimeAhead,
    errors.TimeMissing,
    errors.LogContended,
    errors.Overloaded,
    errors.IdNotOwn,
    errors.FormatNotInForce,
)

JOBS = (
    Served(
        endpoints.SUBMIT_JOB,
        jobs.submit_job,
        role=Role.MEMBER,
        body=job_wire.JobBody,
        errors=(
            *_CHANGE,
            errors.FlavorNotFound,
            errors.TooManyInstances,
            errors.TooManyEvictions,
            errors.InstanceConflict,
            errors.JobConflict,
        ),
        example={"id": "job-1", "flavor": "small", "count": 2, "lifetime_s": 3600},
    ),
    Served(endpoints.JOBS, jobs.list_jobs, role=Role.READER, query=PageQuery, query_example={"limit": 100}),
    Served(endpoints.JOB, jobs.show_job, role=Role.READER),
    Served(endpoints.ATTEMPTS, jobs.list_attempts, role=Role.READER),
    Served(endpoints.CANCEL_JOB, jobs.cancel_job, role=Role.MEMBER, query=AtQuery, errors=_CHANGE),
)
