"""The backtest of RAMC-DC (chapter 5): jobs with deadlines on leased machines, with checkpoints and revocations."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from math import inf
from typing import Any

import numpy as np

from app.domain.times import HOUR_US
from app.venues.rules.checkpoints import CheckpointedRun, CheckpointRule, rising_run, suspend_us
from app.venues.rules.choose import ON_DEMAND
from app.venues.rules.provision import MachineWay
from app.workbench.venues.deadlinejobs import DeadlineJob, deadline_jobs
from app.workbench.venues.jobs import RecordedJob, place_jobs
from app.workbench.venues.leases import NEVER, new_lease, use_until
from app.workbench.venues.leastbids import LeastBids
from app.workbench.venues.provisioning import HeldMachine, MachineWays, Scheme, WaitingJob
from app.workbench.venues.setting import BacktestSetting

JOBS = 3_000
RAMC_DC_LEVELS = (0.0, 0.5, 0.75, 0.95, 1.0)
SPLITS_H = (0.0, inf)
_SEED = 5_000


class FleetEvent(IntEnum):
    """Things that happen to a machine or a job; of events at one time the lower comes first."""

    DONE = 0
    REVOKED = 1
    STOPPED = 2
    ARRIVED = 3
    LATEST_START = 4
    LOOKED_AGAIN = 5


class DeadlineFleet:
    """Machines and jobs as time goes by under a scheme; `paid` is in dollars."""

    def __init__(self, setting: BacktestSetting, bids: LeastBids, scheme: Scheme, jobs: Sequence[DeadlineJob]) -> None:
        self._setting, self._scheme = setting, scheme
        self._ways = MachineWays(setting, bids, scheme)
        self._held = list[HeldMachine]()
        self._events = list[tuple[float, FleetEvent, int, DeadlineJob | None, HeldMachine | None, int]]()
        self._count, self.paid = 0, 0.0
        for job in jobs:
            self._push(job.submit_us, FleetEvent.ARRIVED, job, None)

    def run(self) -> None:
        """Let all jobs end."""
        while self._events:
            at_us, event, _, job, machine, turn = heapq.heappop(self._events)
            now_us = int(at_us)
            if event is FleetEvent.ARRIVED and job is not None:
                self._assign(job, now_us)
            elif event is FleetEvent.DONE and machine is not None and machine.turn == turn and machine.job is not None:
                self._done(machine, now_us)
            elif event is FleetEvent.STOPPED and machine is not None and machine.turn == turn:
                self._stopped(machine, now_us)
            elif event is FleetEvent.REVOKED and machine is not None:
                self._revoked(machine, now_us)
            elif event is FleetEvent.LATEST_START and machine is not None and job is not None:
                self._latest_start(job, machine, now_us)
            elif event is FleetEvent.LOOKED_AGAIN and machine is not None and machine.turn == turn:
                self._look_again(machine, now_us)

    def _push(
        self, at_us: float, event: FleetEvent, job: DeadlineJob | None, machine: HeldMachine | None, turn: int = 0
    ) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_us, event, self._count, job, machine, turn))

    def _assign(self, job: DeadlineJob, now_us: int) -> HeldMachine:
        """Give a job the machine of algorithm 3, and start it if the machine is idle."""
        self._held = [one for one in self._held if one.job is not None or one.waiting or one.lease.is_idle(now_us)]
        way, job.is_given_up = self._ways.best(job, self._held, now_us)
        machine = self._held[way.number] if way.number >= 0 else self._lease(way, now_us)
        if machine.job is None:
            self._start(job, machine, way, now_us)
        else:
            machine.waiting.append(WaitingJob(job, way.takes_us))
            self._push(max(job.deadline_us - way.takes_us, now_us), FleetEvent.LATEST_START, job, machine)
        return machine

    def _lease(self, way: MachineWay, now_us: int) -> HeldMachine:
        machine = HeldMachine(new_lease(self._setting.steps[way.pool], way.pool, way.bid, now_us))
        self._held.append(machine)
        if machine.lease.revoked_us < NEVER:
            self._push(machine.lease.revoked_us, FleetEvent.REVOKED, None, machine)
        return machine

    def _start(self, job: DeadlineJob, machine: HeldMachine, way: MachineWay, now_us: int) -> None:
        zone = self._ways.zone(way.pool)
        self.paid += job.moving_cost(zone)
        machine.work_from_us = now_us + job.resume_us(zone)
        machine.job, machine.expected_end_us = job, now_us + way.takes_us
        job.launches += 1
        machine.run, machine.turn, job.zone = self._run_of(job, machine, now_us), machine.turn + 1, zone
        self._follow(machine)
        if self._scheme.looks_again and machine.lease.bid != ON_DEMAND:
            self._look_before(machine, machine.lease.paid_us, now_us)

    def _follow(self, machine: HeldMachine) -> None:
        """Await the end of a machine's run."""
        assert machine.run is not None
        event = FleetEvent.STOPPED if machine.run.is_cut else FleetEvent.DONE
        self._push(machine.work_from_us + machine.run.length_us, event, None, machine, machine.turn)

    def _look_before(self, machine: HeldMachine, hour_us: int, now_us: int) -> None:
        """Look for a cheaper machine so long before the end of the next paid hour as a checkpoint takes."""
        assert machine.job is not None
        pause_us = suspend_us(machine.job.memory_gib)
        while hour_us - pause_us <= now_us:
            hour_us += HOUR_US
        machine.looks_for_us = hour_us
        self._push(hour_us - pause_us, FleetEvent.LOOKED_AGAIN, None, machine, machine.turn)

    def _look_again(self, machine: HeldMachine, now_us: int) -> None:
        """Let a job leave at the end of the hour, with a checkpoint, if it is cheaper elsewhere and as safe."""
        if machine.job is None:
            return
        others = [one for one in self._held if one is not machine]
        run = self._ways.leaving(machine.job, machine, others, now_us)
        if run is None:
            self._look_before(machine, machine.looks_for_us, now_us)
            return
        machine.run, machine.turn = run, machine.turn + 1
        machine.expected_end_us = machine.work_from_us + run.length_us
        self._follow(machine)

    def _run_of(self, job: DeadlineJob, machine: HeldMachine, now_us: int) -> CheckpointedRun:
        lease = machine.lease
        if self._scheme.rule is not CheckpointRule.RISING or lease.bid == ON_DEMAND:
            return self._ways.periodic(job, lease.pool, lease.bid, now_us, machine.work_from_us)
        steps = self._setting.steps[lease.pool]
        first = steps.step_at(int(machine.work_from_us))
        last = int(steps.at_us.searchsorted(min(lease.revoked_us, steps.end_us)))
        rose = np.flatnonzero(np.diff(steps.price[first:last]) > 0) + first + 1
        rises_us = (steps.at_us[rose] - machine.work_from_us).tolist()
        return rising_run(job.work_us(self._ways.machine(lease.pool)), rises_us, suspend_us(job.memory_gib))

    def _bill(self, machine: HeldMachine, until_us: int) -> None:
        pool = machine.lease.pool
        self.paid += use_until(machine.lease, self._setting.steps[pool], self._setting.on_demand[pool], until_us)

    def _done(self, machine: HeldMachine, now_us: int) -> None:
        """End a job, and let the next that waits begin here or where it is cheaper by now."""
        self._bill(machine, now_us)
        assert machine.job is not None
        machine.job.ended_us, machine.job = now_us, None
        while machine.waiting and machine.job is None:
            self._assign(machine.waiting.popleft().job, now_us)

    def _stopped(self, machine: HeldMachine, now_us: int) -> None:
        """Take a job off a machine at the safety net's moment; it goes on where it is safe."""
        job = machine.job
        assert job is not None
        assert machine.run is not None
        self._bill(machine, now_us)
        job.save(machine.run.saved_after(machine.run.length_us), self._ways.machine(machine.lease.pool))
        machine.job = None
        self._assign(job, now_us)
        while machine.waiting and machine.job is None:
            self._assign(machine.waiting.popleft().job, now_us)

    def _revoked(self, machine: HeldMachine, now_us: int) -> None:
        """Give the jobs of a revoked machine to others, in order of submission."""
        jobs = [one.job for one in machine.waiting]
        if machine.job is not None and machine.run is not None:
            self._bill(machine, now_us + 1)
            saved_us = machine.run.saved_after(now_us - machine.work_from_us)
            machine.job.save(saved_us, self._ways.machine(machine.lease.pool))
            machine.job.revocations += 1
            jobs.append(machine.job)
        machine.job, machine.turn = None, machine.turn + 1
        machine.waiting.clear()
        for job in sorted(jobs, key=lambda one: one.number):
            self._assign(job, now_us)

    def _latest_start(self, job: DeadlineJob, machine: HeldMachine, now_us: int) -> None:
        """Look for another machine for a job that waits still and would be late from now on."""
        late = next((one for one in machine.waiting if one.job is job), None)
        if late is not None:
            machine.waiting.remove(late)
            self._assign(job, now_us)


def backtest_ramc_dc(
    setting: BacktestSetting,
    method: str,
    levels: Sequence[float],
    recorded: list[RecordedJob] | None,
    count: int | None = None,
) -> dict[str, Any]:
    """Return cost, breaches and early terminations by level, t_split and checkpoints; first the highest level's."""
    jobs = deadline_jobs(setting, place_jobs(setting, recorded, count or JOBS, _SEED))
    bids = LeastBids(setting, levels)
    rules = [CheckpointRule.HAZARD] if method != "thesis" else [*CheckpointRule][:3]
    fixed = fleet_ended(setting, bids, Scheme(None, 0.0, CheckpointRule.NONE), jobs)
    cells = dict[str, dict[str, float | int]]()
    places = range(len(levels))
    schemes = [Scheme(at, split_h, rule) for rule in rules for split_h in SPLITS_H for at in places]
    if method != "thesis":
        schemes = [Scheme(at, 0.0, CheckpointRule.HAZARD, has_net=True, looks_again=True) for at in places] + schemes
    for number, scheme in enumerate(schemes, 1):
        cells[scheme_name(scheme, levels)] = fleet_summary(*fleet_ended(setting, bids, scheme, jobs), fixed[1])
        setting.progress(number, len(schemes))
    first = scheme_name(schemes[len(levels) - 1], levels)
    return cells[first] | {"on_demand_cost": fixed[1], "cells": cells}


def scheme_name(scheme: Scheme, levels: Sequence[float]) -> str:
    """Return the name of a cell."""
    level = f"S_lb {levels[scheme.level]:g} " if scheme.level is not None else ""
    return f"{level}t_split {scheme.split_h:g} {scheme.rule.value}{' with net' if scheme.has_net else ''}"


def fleet_ended(
    setting: BacktestSetting, bids: LeastBids, scheme: Scheme, jobs: Sequence[DeadlineJob]
) -> tuple[list[DeadlineJob], float]:
    """Return the jobs as they ended under a scheme, and what was paid."""
    fresh = [replace(job) for job in jobs]
    fleet = DeadlineFleet(setting, bids, scheme, fresh)
    fleet.run()
    return fresh, fleet.paid


def fleet_summary(jobs: Sequence[DeadlineJob], paid: float, on_demand: float) -> dict[str, float | int]:
    """Return the cost over that of on-demand machines, the share of late jobs, and revocations and launches by job."""
    late = [job for job in jobs if job.ended_us > job.deadline_us]
    over = [(job.ended_us - job.submit_us) / (job.deadline_us - job.submit_us) - 1.0 for job in late]
    return {
        "cost_over_on_demand": paid / on_demand,
        "breaches": len(late) / len(jobs),
        "early_terminations": sum(job.revocations for job in jobs) / len(jobs),
        "launches": sum(job.launches for job in jobs) / len(jobs),
        "exceeded": float(np.mean(over)) if over else 0.0,
        "count": len(jobs),
    }
