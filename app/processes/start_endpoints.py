"""The endpoint of starts with its handler, the first of the table of all endpoints."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.platform.http.serving import Served
from app.scheduling.http import instances
from app.scheduling.wire.single import SingleStartBody
from tenure_client import endpoints

_EXAMPLE = {"id": "i-1", "market": "on_demand", "flavor": "small"}

STARTED = Served(
    endpoints.START,
    instances.start_instance,
    role=Role.PROJECT_MEMBER,
    body=SingleStartBody,
    errors=(
        errors.TimeUnexpected,
        errors.TimeBackwards,
        errors.TimeAhead,
        errors.TimeMissing,
        errors.LogContended,
        errors.Overloaded,
        errors.FlavorNotFound,
        errors.LifetimeMissing,
        errors.LifetimeOutOfBounds,
        errors.ProbabilityOutOfBounds,
        errors.ProbabilityUnexpected,
        errors.GroupOnDemand,
        errors.TooManyClasses,
        errors.TooManyOwners,
        errors.TooManyInstances,
        errors.TooManyJobs,
        errors.TooManyEvictions,
        errors.InstanceConflict,
        errors.JobConflict,
        errors.IdNotOwn,
        errors.EpochsCrossed,
        errors.ServiceStopping,
        errors.ClockExternal,
        errors.FormatNotInForce,
    ),
    example=_EXAMPLE,
)
