"""Rules 1 and 6 for jobs: all their instances start or none; attempts follow each other, and one at most is out.

Of a host's attempts: what is admitted had its room held in time, and its inputs before; and a last word is never taken
back. Of data: what was told of outputs is told once, of a job that completed at a peer, and is what it declared.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from app.domain.jobs import DataObject, OutputObject
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.logcsv import LogRow

_OUT = frozenset({"offered", "awarded"})


@dataclass(slots=True)
class AuditedJob:
    """A job: its number of instances, the number of its last attempt, and whether that is out.

    `outputs`: those that it declared, as far as the file tells; `finished`: the attempt that completed at a peer;
    `is_told`: what became of its outputs is known; `taken_back`: attempts that may have finished all the same.
    """

    count: int
    outputs: tuple[DataObject | OutputObject, ...] | None = None
    finished: int = 0
    is_told: bool = False
    attempt: int = 0
    state: str = "waiting"
    taken_back: set[int] = field(default_factory=set)


@dataclass(slots=True)
class AuditedJobs:
    """The jobs so far, and a host's words on attempts.

    `expected`: ids of the instances that start next; `held`: by attempt, the row of its room; `staged`: until when the
    inputs of an attempt may come; `rooms`: ids of instances that stand for held room; `runs`: the attempt of each
    foreign instance.
    """

    jobs: dict[str, AuditedJob] = field(default_factory=dict)
    expected: deque[str] = field(default_factory=deque)
    held: dict[tuple[str, str, int], LogRow] = field(default_factory=dict)
    staged: dict[tuple[str, str, int], int] = field(default_factory=dict)
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
    jobs.jobs[row.job or ""] = AuditedJob(row.machine_count, row.outputs)


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
    taken = row.end == "completed" and job.state != "awarded" and row.attempt in job.taken_back
    if row.attempt and not taken:
        known = (job.attempt, job.state) == (row.attempt, "awarded")
        require(row, Rule.FOLD, known, f"attempt {row.attempt} is not awarded")
    require(row, Rule.FOLD, bool(row.attempt) or job.state not in _OUT, f"job {row.job} is {job.state}")
    job.state = "ended" if row.last == "yes" else "waiting"
    if row.end == "reclaimed":
        job.taken_back.add(row.attempt or 0)
    if row.end == "completed":
        job.finished = row.attempt or 0


def _collected(jobs: AuditedJobs, row: LogRow) -> None:
    job = _told(jobs, row)
    most = {one.key: one.bytes for one in job.outputs or ()}
    found = row.outputs or ()
    names = [one.key for one in found]
    require(row, Rule.FOLD, sorted(names) == sorted(most), f"the outputs of {row.job} are not those that it declared")
    large = [one.key for one in found if one.bytes > most[one.key]]
    require(row, Rule.FOLD, not large, f"outputs of {row.job} are larger than declared: {', '.join(large)}")


def _told(jobs: AuditedJobs, row: LogRow) -> AuditedJob:
    """Take what is told of the outputs of a job: once, and of the attempt that completed."""
    job = jobs.jobs.get(row.job or "")
    if job is None:
        fail(row, Rule.FOLD, f"there is no job {row.job!r}")
    require(row, Rule.FOLD, 0 < job.finished == row.attempt, f"attempt {row.attempt} of {row.job} did not complete")
    require(row, Rule.ONCE, not job.is_told, f"what became of the outputs of {row.job} was told before")
    job.is_told = True
    return job


def _lost(jobs: AuditedJobs, row: LogRow) -> None:
    _told(jobs, row)


def _held(jobs: AuditedJobs, row: LogRow) -> None:
    key = _key(row)
    require(row, Rule.ONCE, key not in jobs.held and key not in jobs.over, f"{_named(row)} was heard of before")
    newer = [one for one in (*jobs.held, *jobs.over) if one[:2] == key[:2] and one[2] > key[2]]
    require(row, Rule.FOLD, not newer, f"a newer attempt than {_named(row)} was heard of")
    jobs.held[key] = row
    jobs.rooms.add(row.instance_id or "")
    jobs.runs[row.instance_id or ""] = key
    jobs.expected.append(row.instance_id or "")


def _staging(jobs: AuditedJobs, row: LogRow) -> None:
    key, held = _key(row), _room(jobs, row)
    require(row, Rule.FOLD, key not in jobs.staged, f"{_named(row)} was awarded before")
    require(row, Rule.FOLD, row.at_us < (held.until_us or 0), f"the room of {_named(row)} was held no longer")
    if held.stage_us is not None:
        until_us = row.at_us + held.stage_us if held.stage_us else 0
        require(row, Rule.FOLD, row.until_us == until_us, f"the inputs of {_named(row)} have another time to come")
    jobs.staged[key] = row.until_us or 0


def _foreign_admitted(jobs: AuditedJobs, row: LogRow) -> None:
    key, held = _key(row), _room(jobs, row)
    waited = not held.stage_us or key in jobs.staged
    require(row, Rule.FOLD, waited, f"the inputs of {_named(row)} were not waited for")
    until_us = jobs.staged.get(key, held.until_us or 0)
    require(row, Rule.FOLD, row.at_us < until_us, f"the room of {_named(row)} was held no longer")
    del jobs.runs[held.instance_id or ""]
    jobs.runs[row.instance_id or ""] = key
    jobs.expected.append(row.instance_id or "")


def _foreign_ended(jobs: AuditedJobs, row: LogRow) -> None:
    key = _key(row)
    require(row, Rule.FOLD, key not in jobs.over, f"{_named(row)} is over already")
    jobs.over.add(key)
    for name in [name for name, one in jobs.runs.items() if one == key]:
        del jobs.runs[name]


def _room(jobs: AuditedJobs, row: LogRow) -> LogRow:
    """Return the row of the room that is held for an attempt."""
    held = jobs.held.get(_key(row))
    if held is None or _key(row) in jobs.over or held.instance_id not in jobs.runs:
        fail(row, Rule.FOLD, f"no room is held for {_named(row)}")
    return held


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
    "job_collected": _collected,
    "job_outputs_lost": _lost,
    "room_held": _held,
    "foreign_job_staging": _staging,
    "foreign_job_admitted": _foreign_admitted,
    "foreign_job_ended": _foreign_ended,
}
KINDS = frozenset({*_CHECKS, "job_cancelled", "peer_paused", "peer_resumed"})
