"""Rules 1 and 6 for jobs: all their instances start or none; attempts follow each other, and one at most is out.

Of a host's attempts: what is admitted had its room held in time, and a last word is never taken back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from app.workbench.audit.findings import Rule, fail, require
from app.workbench.logcsv import LogRow

_OUT = frozenset({"offered", "awarded"})


@dataclass(slots=True)
class AuditedJob:
    """A job: its number of instances, the number of its last attempt, and whether that is out."""

    count: int
    attempt: int = 0
    state: str = "waiting"


@dataclass(slots=True)
class AuditedJobs:
    """The jobs so far, and a host's words on attempts.

    `expected`: ids of the instances that start next; `held`: by attempt, the row of its room; `rooms`: ids of instances
    that stand for held room; `runs`: the attempt of each foreign instance.
    """

    jobs: dict[str, AuditedJob] = field(default_factory=dict)
    expected: deque[str] = field(default_factory=deque)
    held: dict[tuple[str, str, int], LogRow] = field(default_factory=dict)
    over: set[tuple[str, str, int]] = field(default_factory=set)
    rooms: set[str] = field(default_factory=set)
    runs: dict[str, tuple[str, str, int]] = field(default_factory=dict)

    def check(self, row: LogRow) -> None:
        """Check the next event, whatever its kind."""
        if self.expected and row.kind not in {"instance_started", "eviction_scheduled", "instance_evicted"}:
            among = row.kind == "instance_stopped" and row.instance_id in self.rooms
            require(row, Rule.FOLD, among, f"the start of {self.expected[0]} should follow")
        if row.kind in {"instance_stopped", "instance_evicted"} and row.instance_id in self.runs:
            self.over.add(self.runs.pop(row.instance_id))
        check = _CHECKS.get(row.kind)
        if check is not None:
            check(self, row)

    def start(self, row: LogRow) -> None:
        """Check a start: if one is expected, it is this one."""
        if self.expected:
            due = self.expected.popleft()
            require(row, Rule.FOLD, row.instance_id == due, f"the start of {due} should follow")


def _job(jobs: AuditedJobs, row: LogRow) -> AuditedJob:
    job = jobs.jobs.get(row.job or "")
    if job is None:
        fail(row, Rule.FOLD, f"there is no job {row.job!r}")
    require(row, Rule.FOLD, job.state != "ended", f"job {row.job} has ended")
    return job


def _requested(jobs: AuditedJobs, row: LogRow) -> None:
    require(row, Rule.ONCE, row.job not in jobs.jobs, f"job {row.job} was submitted before")
    jobs.jobs[row.job or ""] = AuditedJob(row.machine_count)


def _admitted(jobs: AuditedJobs, row: LogRow) -> None:
    job = _job(jobs, row)
    require(row, Rule.FOLD, job.state == "waiting", f"job {row.job} is {job.state}")
    require(row, Rule.FOLD, job.count == row.machine_count, f"job {row.job} has {job.count} instances")
    job.state = "here"
    jobs.expected.extend(f"{row.job}.{number}" for number in range(1, job.count + 1))


def _offered(jobs: AuditedJobs, row: LogRow) -> None:
    job = _job(jobs, row)
    require(row, Rule.FOLD, job.state == "waiting", f"job {row.job} is {job.state}")
    require(row, Rule.FOLD, row.attempt == job.attempt + 1, f"attempt {row.attempt} follows {job.attempt}")
    job.attempt, job.state = row.attempt or 0, "offered"


def _declined(jobs: AuditedJobs, row: LogRow) -> None:
    job = _job(jobs, row)
    require(row, Rule.FOLD, (job.attempt, job.state in _OUT) == (row.attempt, True), f"job {row.job} is {job.state}")
    job.state = "waiting"


def _awarded(jobs: AuditedJobs, row: LogRow) -> None:
    job = _job(jobs, row)
    require(row, Rule.FOLD, (job.attempt, job.state) == (row.attempt, "offered"), f"job {row.job} is {job.state}")
    job.state = "awarded"


def _ended(jobs: AuditedJobs, row: LogRow) -> None:
    job = _job(jobs, row)
    taken = row.end == "completed" and job.state != "awarded" and 0 < (row.attempt or 0) <= job.attempt
    if row.attempt and not taken:
        known = (job.attempt, job.state) == (row.attempt, "awarded")
        require(row, Rule.FOLD, known, f"attempt {row.attempt} is not awarded")
    require(row, Rule.FOLD, bool(row.attempt) or job.state not in _OUT, f"job {row.job} is {job.state}")
    job.state = "ended" if row.last == "yes" else "waiting"


def _held(jobs: AuditedJobs, row: LogRow) -> None:
    key = _key(row)
    require(row, Rule.ONCE, key not in jobs.held and key not in jobs.over, f"{_named(row)} was heard of before")
    newer = [one for one in (*jobs.held, *jobs.over) if one[:2] == key[:2] and one[2] > key[2]]
    require(row, Rule.FOLD, not newer, f"a newer attempt than {_named(row)} was heard of")
    jobs.held[key] = row
    jobs.rooms.add(row.instance_id or "")
    jobs.runs[row.instance_id or ""] = key
    jobs.expected.append(row.instance_id or "")


def _foreign_admitted(jobs: AuditedJobs, row: LogRow) -> None:
    key = _key(row)
    held = jobs.held.get(key)
    if held is None or key in jobs.over:
        fail(row, Rule.FOLD, f"no room is held for {_named(row)}")
    require(row, Rule.FOLD, row.at_us < (held.until_us or 0), f"the room of {_named(row)} was held no longer")
    del jobs.runs[held.instance_id or ""]
    jobs.runs[row.instance_id or ""] = key
    jobs.expected.append(row.instance_id or "")


def _foreign_ended(jobs: AuditedJobs, row: LogRow) -> None:
    key = _key(row)
    require(row, Rule.FOLD, key not in jobs.over, f"{_named(row)} is over already")
    jobs.over.add(key)
    for name in [name for name, one in jobs.runs.items() if one == key]:
        del jobs.runs[name]


def _key(row: LogRow) -> tuple[str, str, int]:
    return row.peer or "", row.job or "", row.attempt or 0


def _named(row: LogRow) -> str:
    return f"attempt {row.attempt} of {row.job} of {row.peer}"


_CHECKS = {
    "job_requested": _requested,
    "job_admitted": _admitted,
    "job_offered": _offered,
    "job_declined": _declined,
    "job_awarded": _awarded,
    "job_ended": _ended,
    "room_held": _held,
    "foreign_job_admitted": _foreign_admitted,
    "foreign_job_ended": _foreign_ended,
}
KINDS = frozenset({*_CHECKS, "job_cancelled", "peer_paused", "peer_resumed"})
