"""Leads the jobs of several clouds through a federation, in one order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from app.domain.events import Event
from app.domain.progress import Progress
from app.domain.values import EvictionPolicy, Resources
from app.federation.rules.hosting import HostRule, Offer, admitted_risk
from app.federation.rules.jobs import Job
from app.workbench.evaluate import EventSink
from app.workbench.federation.clouds import CloudLine, FederatedCloud, LocalLine, opening

BYTES_PER_S = 1_250_000_000
_END, _START = 0, 1
OpenLine = Callable[[str, Sequence[Event], EventSink | None], CloudLine]
"""Opens the line of a cloud, given its name, the events that it begins with, and its log."""


@dataclass(frozen=True)
class FederationScenario:
    """A federation to evaluate. `links` (a cloud, those that it offers its jobs to, in order); `train` is the share of
    the time, up to the last start, in which jobs run but are not counted; `bound` is how many times their lifetime jobs
    declare to hosts.
    """

    nodes: Mapping[str, Sequence[Resources]]
    jobs: Mapping[str, Sequence[Job]]
    links: Mapping[str, Sequence[str]]
    rule: HostRule
    sla: float = 0.05
    bytes_per_s: int = BYTES_PER_S
    train: float = 1 / 3
    bound: float = 1.0
    eviction: EvictionPolicy = EvictionPolicy.YJF

    @cached_property
    def counted_from_us(self) -> float:
        """The time from which on jobs are counted."""
        return self.train * max((job.start_us for jobs in self.jobs.values() for job in jobs), default=0)


@dataclass(slots=True)
class JobCounts:
    """The counted jobs of one cloud, or of all: what became of them.

    `remote`: admitted by another cloud, of these `preempted`. Works are instance-microseconds of completed jobs, those
    of foreign ones with their transfers (EXFed, III-C).
    """

    requests: int = 0
    native: int = 0
    remote: int = 0
    preempted: int = 0
    rejected: int = 0
    native_work: int = 0
    remote_work: int = 0

    @property
    def federation(self) -> float:
        """The share of completed work that was done away from home; 0 without work."""
        work = self.native_work + self.remote_work
        return self.remote_work / work if work else 0.0

    def plus(self, other: JobCounts) -> JobCounts:
        """Return the sum of two counts."""
        return JobCounts(*(getattr(self, name) + getattr(other, name) for name in JobCounts.__slots__))


class JobOutcome(StrEnum):
    """The outcome of a job: it ran at home, or it ended, was preempted away from home, or was rejected by all."""

    NATIVE = "native"
    COMPLETED = "completed"
    PREEMPTED = "preempted"
    REJECTED = "rejected"


class JobFate(NamedTuple):
    """The fate of one job. `host` is where it ran, None if it was rejected; `end_us` when it left.

    `risk` is the probability of preemption at which its host admitted it; 0 of a native job.
    """

    origin: str
    name: str
    host: str | None
    begin_us: int
    end_us: int
    cores: int
    outcome: JobOutcome
    risk: float
    is_counted: bool


class _JobStep(NamedTuple):
    """The start of a job, or its end: `host` is where it runs."""

    at_us: int
    kind: int
    order: int
    origin: str
    job: Job
    host: str


class _Away(NamedTuple):
    """A foreign job that runs: its start, its host, and the risk at which that admitted it."""

    start: _JobStep
    host: str
    risk: float


@dataclass
class _FederationRun:
    scenario: FederationScenario
    clouds: dict[str, FederatedCloud]
    told: Callable[[JobFate], None]
    counts: dict[str, JobCounts] = field(default_factory=dict)
    ends: list[_JobStep] = field(default_factory=list)
    away: dict[str, _Away] = field(default_factory=dict)

    def start(self, step: _JobStep) -> None:
        """Try a job at home, then away."""
        job, count, is_counted = step.job, self.counts[step.origin], self._is_counted(step)
        count.requests += is_counted
        victims = self.clouds[step.origin].start_native(job)
        if victims is not None:
            self._preempted(victims, step.at_us)
            count.native += is_counted
            end_us = job.start_us + job.lifetime_us
            self._ends_at(step, step.origin, end_us)
            self._tell(step, step.origin, end_us, JobOutcome.NATIVE)
        elif (found := self._host_of(step)) is not None:
            count.remote += is_counted
            self._start_away(step, *found)
        else:
            count.rejected += is_counted
            self._tell(step, None, step.at_us, JobOutcome.REJECTED)

    def end(self, step: _JobStep) -> None:
        """End a job where it runs, if it runs still."""
        job, count = step.job, self.counts[step.origin]
        work = job.count * (step.at_us - job.start_us) * self._is_counted(step)
        if step.host == step.origin:
            self.clouds[step.host].stop_native(job, step.at_us)
            count.native_work += work
        elif self.clouds[step.host].stop_foreign(_foreign_id(step), step.at_us):
            count.remote_work += work
            gone = self.away.pop(_foreign_id(step))
            self._tell(gone.start, gone.host, step.at_us, JobOutcome.COMPLETED, gone.risk)

    def _start_away(self, step: _JobStep, host: str, risk: float) -> None:
        declared_us = step.job.held_us(self.scenario.bytes_per_s, self.scenario.bound)
        self.clouds[host].start_foreign(_foreign_id(step), step.job, declared_us, risk)
        self.away[_foreign_id(step)] = _Away(step, host, risk)
        self._ends_at(step, host, step.at_us + step.job.held_us(self.scenario.bytes_per_s))

    def _host_of(self, step: _JobStep) -> tuple[str, float] | None:
        """Return the cloud that a job goes to, and the risk: the first that admits it, in the order of links.

        By the rule `tenure` all are asked, and it goes to the first of those with the lowest risk.
        """
        if self.scenario.rule is HostRule.TENURE:
            return min(self._admitting(step), key=lambda found: found[1], default=None)
        return next(self._admitting(step), None)

    def _admitting(self, step: _JobStep) -> Iterator[tuple[str, float]]:
        """Yield the linked clouds that admit a job, in their order, with the risk that each tells."""
        job, scenario = step.job, self.scenario
        for name in scenario.links.get(step.origin, ()):
            host = self.clouds[name]
            spare = host.spare_beside(job)
            if spare is None:
                continue
            declared_us = job.held_us(scenario.bytes_per_s, scenario.bound)
            offer = Offer(job.start_us, declared_us, spare, host.ends_after(job.start_us), scenario.sla)
            risk = admitted_risk(scenario.rule, host.native, host.book, offer)
            if risk is not None:
                yield name, risk

    def _preempted(self, victims: Sequence[str], at_us: int) -> None:
        for victim in victims:
            gone = self.away.pop(victim)
            self.counts[gone.start.origin].preempted += self._is_counted(gone.start)
            self._tell(gone.start, gone.host, at_us, JobOutcome.PREEMPTED, gone.risk)

    def _is_counted(self, step: _JobStep) -> bool:
        return step.job.start_us >= self.scenario.counted_from_us

    def _tell(self, start: _JobStep, host: str | None, end_us: int, outcome: JobOutcome, risk: float = 0.0) -> None:
        job = start.job
        is_counted = self._is_counted(start)
        self.told(JobFate(start.origin, job.name, host, job.start_us, end_us, job.all_cores, outcome, risk, is_counted))

    def _ends_at(self, step: _JobStep, host: str, at_us: int) -> None:
        heapq.heappush(self.ends, step._replace(at_us=at_us, kind=_END, host=host))


def _not_told(_: JobFate) -> None:
    """Take the fate of a job where nobody asks for it."""


def _foreign_id(step: _JobStep) -> str:
    """Return the name of a foreign job at its host: origin, job, attempt."""
    return f"{step.origin}.{step.job.name}.1"


def run_federation(
    scenario: FederationScenario,
    *,
    open_line: OpenLine | None = None,
    logs: Mapping[str, EventSink] | None = None,
    told: Callable[[JobFate], None] | None = None,
    progress: Progress | None = None,
) -> dict[str, JobCounts]:
    """Run all jobs of all clouds until the last has ended, and return the counts of each cloud.

    At equal times ends come before starts, and starts in the order of clouds and of their files. `told` takes the fate
    of each job once it is sure. Each cloud decides in this process, or where `open_line` says.
    """
    kinds = {job.cores for jobs in scenario.jobs.values() for job in jobs}
    open_line = open_line or (lambda _, opened, log: LocalLine(opened, log))
    clouds = {
        name: FederatedCloud(name, open_line(name, opening(nodes, kinds, scenario.eviction), (logs or {}).get(name)))
        for name, nodes in scenario.nodes.items()
    }
    counts = {name: JobCounts() for name in clouds}
    run = _FederationRun(scenario, clouds, told or _not_told, counts)
    starts = sorted(
        _JobStep(job.start_us, _START, order, name, job, name)
        for order, (name, job) in enumerate((name, job) for name in clouds for job in scenario.jobs.get(name, ()))
    )
    for done, step in enumerate(starts, 1):
        while run.ends and run.ends[0].at_us <= step.at_us:
            run.end(heapq.heappop(run.ends))
        run.start(step)
        if progress is not None:
            progress(done, len(starts))
    while run.ends:
        run.end(heapq.heappop(run.ends))
    return run.counts
