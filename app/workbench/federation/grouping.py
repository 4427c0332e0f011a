"""Jobs of a trace of instances, which names none: instances that start together are taken for one job.

The paper EXFed keeps only what ran for an hour. Traces of Eucalyptus hold neither jobs nor data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.domain.inputs import InputError
from app.domain.times import HOUR_US, SECOND_US
from app.federation.rules.jobs import MOST_INSTANCES
from app.workbench.federation.joblines import JobLine
from app.workbench.workload import TraceInstance

LEAST_US = HOUR_US
"""Instances that ran for less are left out."""
APART_US = SECOND_US
"""An instance belongs to a job if it starts at most so long after the one before it."""
_INPUT_SHARE = 0.8


@dataclass(slots=True)
class _StartedTogether:
    members: list[TraceInstance] = field(default_factory=list)

    def takes(self, one: TraceInstance) -> bool:
        return one.start_us - self.members[-1].start_us <= APART_US and len(self.members) < MOST_INSTANCES


def jobs_of_trace(instances: Iterable[TraceInstance], bytes_per_instance_h: int = 0) -> list[JobLine]:
    """Return the jobs of instances (by start): those of equal cores that start at most a second after each other.

    A job runs as long as its longest instance. Raises InputError if no instance ran for an hour.
    """
    groups: list[_StartedTogether] = []
    latest: dict[int, _StartedTogether] = {}
    for one in instances:
        if one.lifetime_us < LEAST_US:
            continue
        group = latest.get(one.cores)
        if group is None or not group.takes(one):
            group = latest[one.cores] = _StartedTogether()
            groups.append(group)
        group.members.append(one)
    if not groups:
        raise InputError("no instance of the trace ran for an hour")
    return [_job(group.members, bytes_per_instance_h) for group in groups]


def _job(members: Sequence[TraceInstance], bytes_per_instance_h: int) -> JobLine:
    lifetime_us = max(one.lifetime_us for one in members)
    size = bytes_per_instance_h * len(members) * lifetime_us // HOUR_US
    inputs = int(size * _INPUT_SHARE)
    first = members[0]
    return JobLine(
        first.start_us / SECOND_US, lifetime_us / SECOND_US, first.cores, len(members), inputs, size - inputs
    )
