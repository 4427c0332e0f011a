"""Jobs that run on spot instances of a Tenure cloud under its promise, beside the load of recorded traces.

A job asks for as long as it needs. It takes the longest lifetime that is promised, the *lease*, if that is worth its
boot, and is extended as far as the cloud can. Where the lease ends before the work does, the job writes a checkpoint
just before the end and asks for the next lease: a *chain*. At an eviction it has the grace period to write one.
Refused, it asks again ten minutes later. HOUR and YOUNG are reckoned on the same leases, as if they heard no notice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, Recorded
from app.domain.requests import Driven, StartRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, Forecast, Guarantee, Market, Policy
from app.domain.wanted import Wanted
from app.workbench.evaluate import DrivenCloud, opening
from app.workbench.tally import Scenario
from app.workbench.workload import flavors, operations
from benchmarks.platforms import Platform

PROMISE = 0.01
GRACE_US, WRITE_US, RESTORE_US, BOOT_US = (value * SECOND_US for value in (300, 160, 74, 672))
MARGIN_US = 60 * SECOND_US
LEAST_US = 10 * (WRITE_US + RESTORE_US + BOOT_US)
AGAIN_US = 600 * SECOND_US
EVERY_US = 6 * HOUR_US
FROM_US = 3 * DAY_US
SHORTEST_H, LONGEST_H = 1.0, 53.0


class Lease(NamedTuple):
    """A stay on one instance: from when the job worked, until when, the lifetime that was promised, and the end."""

    from_us: int
    to_us: int
    promised_us: int
    is_evicted: bool
    is_chained: bool


@dataclass
class Job:
    """A job with the work that is left, its leases, and the instance that it has, if any."""

    number: int
    work_us: int
    left_us: int
    asked_us: int
    leases: list[Lease] = field(default_factory=list)
    instance: str = ""
    working_us: int = 0
    promised_us: int = 0
    refused_count: int = 0
    waited_us: int = 0
    is_done: bool = False


class Cost(NamedTuple):
    """A policy over the leases of all finished jobs: time lost over work, and checkpoints a day of running."""

    overhead: float
    checkpoints: float


class Outcome(NamedTuple):
    """The fate of the jobs of a platform."""

    jobs: int
    known: int
    chained: int
    leases: int
    evicted: int
    waited: float
    costs: dict[str, Cost]


class Jobs:
    """Leads a cloud through its recorded load with jobs in between. Also a sink of its log."""

    def __init__(self, scenario: Scenario, jobs: Sequence[Job], flavor: str) -> None:
        self.jobs, self._flavor = jobs, flavor
        self._scenario = scenario
        self._by_instance: dict[str, Job] = {}
        self._deadlines_us: dict[str, int] = {}
        self._victims: list[tuple[str, int]] = []
        self._due: list[tuple[int, int, Any, Job]] = []
        self._order = count()

    def write(self, recorded: Recorded) -> None:
        """Take the next event of the log."""
        event = recorded.event
        if isinstance(event, InstanceExtended) and event.instance_id in self._by_instance:
            self._deadlines_us[event.instance_id] = event.deadline_us
        elif isinstance(event, InstanceEvicted) and event.instance_id in self._by_instance:
            self._victims.append((event.instance_id, event.at_us))

    def run(self) -> None:
        """Run until the recorded load is over."""
        with ThreadPoolExecutor(1) as executor:
            self._cloud = DrivenCloud(self._scenario.policy, executor, logs=[self])
            self._cloud.record(opening(self._scenario))
            for job in self.jobs:
                self._later(job.asked_us, self._ask, job)
            for step in operations(self._scenario.workload):
                while self._due and self._due[0][0] < (step.at_us or 0):
                    at_us, _, act, job = heapq.heappop(self._due)
                    act(job, at_us)
                self._step(step)

    def _later(self, at_us: int, act: Any, job: Job) -> None:  # noqa: ANN401 - a method
        heapq.heappush(self._due, (at_us, next(self._order), act, job))

    def _step(self, operation: Driven) -> Any:  # noqa: ANN401 - an event
        decision = self._cloud.step(operation)
        victims, self._victims = self._victims, []
        for name, at_us in victims:
            job = self._by_instance[name]
            if job.instance == name:
                self._leave(job, at_us, is_evicted=True)
                self._later(at_us + WRITE_US, self._ask, job)
        return decision

    def _ask(self, job: Job, at_us: int) -> None:
        """Ask for the next lease."""
        need_us = BOOT_US + (RESTORE_US if job.leases else 0) + job.left_us + WRITE_US + MARGIN_US
        name = f"job-{job.number}.{len(job.leases)}.{job.refused_count}"
        wanted = Wanted(need_us, min(need_us, LEAST_US))
        found = self._step(StartRequest(name, Market.SPOT, self._flavor, at_us=at_us, wanted=wanted))
        if not isinstance(found, InstanceStarted):
            job.refused_count += 1
            job.waited_us += AGAIN_US
            self._later(at_us + AGAIN_US, self._ask, job)
            return
        self._by_instance[name], job.instance, job.promised_us = job, name, found.lifetime_us or 0
        self._deadlines_us[name] = at_us + job.promised_us
        job.working_us = at_us + BOOT_US + (RESTORE_US if job.leases else 0)
        self._later(self._next_us(job), self._look, job)

    def _next_us(self, job: Job) -> int:
        """Return when the job is done, or has to write its checkpoint before the end of the lease."""
        ends_us = self._deadlines_us[job.instance] - WRITE_US - MARGIN_US
        return max(min(job.working_us + job.left_us, ends_us), job.working_us)

    def _look(self, job: Job, at_us: int) -> None:
        if not job.instance or job.is_done or at_us < job.working_us:
            return
        if (next_us := self._next_us(job)) > at_us:
            self._later(next_us, self._look, job)
            return
        name = job.instance
        self._leave(job, at_us, is_evicted=False)
        if job.is_done:
            self._step(StopRequest(name, at_us))
        else:
            self._later(at_us + WRITE_US, self._go_on, job)

    def _go_on(self, job: Job, at_us: int) -> None:
        """Give the old instance back, and ask for the next one."""
        name = next(one for one in reversed(self._by_instance) if self._by_instance[one] is job)
        self._step(StopRequest(name, at_us))
        self._ask(job, at_us)

    def _leave(self, job: Job, at_us: int, *, is_evicted: bool) -> None:
        """End a lease. What was worked is saved: within the grace, or by the checkpoint before the lease's end."""
        to_us = max(at_us, job.working_us)
        job.left_us -= min(to_us - job.working_us, job.left_us)
        job.is_done, job.instance = job.left_us == 0, ""
        chained = not is_evicted and not job.is_done
        job.leases.append(Lease(job.working_us, to_us, job.promised_us, is_evicted, chained))


def drawn_jobs(until_us: int, seed: int) -> list[Job]:
    """Return a job every six hours, with work from 1 to 53 h, its logarithm uniform."""
    times_us = range(FROM_US, until_us, EVERY_US)
    hours = np.exp(np.random.default_rng(seed).uniform(np.log(SHORTEST_H), np.log(LONGEST_H), len(times_us)))
    works_us = [int(one * HOUR_US) for one in hours]
    return [Job(number, work, work, at_us) for number, (at_us, work) in enumerate(zip(times_us, works_us, strict=True))]


def run_promised(platform: Platform, seed: int = 0) -> Outcome:
    """Return what becomes of the jobs beside the load of a platform."""
    policy = Policy(
        guarantee=Guarantee.STRATIFIED,
        forecast=Forecast.CALIBRATED,
        clock=Clock.EXTERNAL,
        clock_step_us=None,
        eviction_probability=PROMISE,
    )
    workload = platform.workload()
    smallest = min(flavors(workload).items(), key=lambda item: item[1].cores)[0]
    ends_us = max(one.start_us for one in workload.on_demand)
    ran = Jobs(Scenario(platform.capacities, workload, policy), drawn_jobs(ends_us - 5 * DAY_US, seed), smallest)
    ran.run()
    return judged(ran.jobs)


def judged(jobs: Sequence[Job]) -> Outcome:
    """Return the figures of the jobs whose end is known; leases and evictions are counted of all."""
    done = [job for job in jobs if job.is_done]
    leases = [lease for job in jobs for lease in job.leases]
    ways = {"promise": None, "hour": lambda _: float(HOUR_US), "young": _young}
    return Outcome(
        len(jobs),
        len(done),
        sum(any(lease.is_chained for lease in job.leases) for job in done),
        len(leases),
        sum(lease.is_evicted for lease in leases),
        sum(job.waited_us for job in done) / max(sum(job.work_us for job in done), 1),
        {name: _cost(done, interval_of) for name, interval_of in ways.items()},
    )


def _young(lease: Lease) -> float:
    """Return Young's interval at the rate that the promise stands for, p over the lifetime."""
    return sqrt(2.0 * WRITE_US * lease.promised_us / PROMISE)


def _cost(jobs: Sequence[Job], interval_of: Any) -> Cost:  # noqa: ANN401 - a function of a lease, or None
    lost_us, checkpoints, ran_us = 0.0, 0.0, 0.0
    for job in jobs:
        for lease, is_last in _in_order(job.leases):
            ran = lease.to_us - lease.from_us
            taken = 0.0 if interval_of is None else ran // interval_of(lease)
            if lease.is_evicted and interval_of is not None:
                lost_us += ran - taken * interval_of(lease)
            elif lease.is_evicted or lease.is_chained:
                taken += 1.0
            lost_us += taken * WRITE_US + (0 if is_last else RESTORE_US)
            checkpoints, ran_us = checkpoints + taken, ran_us + ran
    work_us = sum(job.work_us for job in jobs)
    return Cost(lost_us / max(work_us, 1), checkpoints / max(ran_us / DAY_US, 1e-9))


def _in_order(leases: Sequence[Lease]) -> Iterator[tuple[Lease, bool]]:
    yield from ((lease, at == len(leases) - 1) for at, lease in enumerate(leases))
