"""Jobs with deadlines as the planner would run them: planned by what was known, then stepped through what came.

Each job is planned alone and pays for its own hours; nothing is shared between jobs. The rule that is stepped is the
one that the service tells (`venues/rules/jobsteps.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isnan
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US
from app.venues.rules.assign import PlanLimits
from app.venues.rules.checkpoints import resume_us, suspend_us
from app.venues.rules.history import PriceSteps
from app.venues.rules.jobreplay import (
    COST,
    DONE,
    ENDED,
    LAUNCHES,
    LOST,
    STATE,
    ReplayedStarts,
    ReplayWork,
    replayed_with_stretches,
)
from app.venues.rules.jobsteps import JobPolicy
from app.venues.rules.planmaking import PlanQuestion, fixed_machine, job_options, ways_after
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanOption, PlanPool, SurvivalSource
from app.venues.rules.planoptions import FixedMachine, known_pool, terms_of, ways_of
from app.workbench.venues.deadlinejobs import DATA_GIB, PER_GIB, DeadlineJob
from app.workbench.venues.setting import BacktestSetting

_AFTER_US = 30 * DAY_US


class JobEnd(NamedTuple):
    """A job's end: dollars, if it was in time, launches and losses."""

    paid: float
    in_time: bool
    launches: int
    lost: int


class PlannedDeadlines:
    """Plans jobs at their submission and steps them through the recorded prices."""

    def __init__(self, setting: BacktestSetting) -> None:
        self._setting = setting
        self._future = [_without_gaps(steps) for steps in setting.steps]
        self._zones = [name.zone for name in setting.names]

    def ends(self, jobs: Sequence[DeadlineJob], levels: Sequence[float]) -> list[list[JobEnd]]:
        """Return for each job, and for each level that its first machine must reach, what came of it."""
        found = []
        for number, job in enumerate(jobs, 1):
            found.append(self._ends(job, levels))
            self._setting.progress(number, len(jobs))
        return found

    def _ends(self, job: DeadlineJob, levels: Sequence[float]) -> list[JobEnd]:
        now_us = job.submit_us
        pools, places = self._pools(now_us)
        asked = _plan_job(job)
        question = PlanQuestion([asked], PlanLimits(), 0, now_us, self._setting.window_us)
        fixed = fixed_machine(asked, self._types(), question)
        known = [known_pool(pool, self._setting.window_us) for pool in pools]
        options = job_options(asked, known, fixed, question, ReplayWork())
        return [self._stepped(job, asked, fixed, options, (pools, places), level) for level in levels]

    def _pools(self, now_us: int) -> tuple[list[PlanPool], list[int]]:
        """Return the pools whose price is known, and their numbers in the setting."""
        found, places = [], []
        for at, name in enumerate(self._setting.names):
            machine, past = self._setting.machine(name), self._setting.past(at, now_us)
            if machine is not None and past is not None and past.end_us - int(past.at_us[0]) >= DAY_US:
                found.append(PlanPool(name.zone, machine, SurvivalSource.PRICE_CROSSING, past))
                places.append(at)
        return found, places

    def _types(self) -> list[PlanPool]:
        machines = [self._setting.machine(name) for name in self._setting.names]
        return [PlanPool("", one, SurvivalSource.PROVIDER_RATE, steady=inf) for one in machines if one is not None]

    def _stepped(
        self,
        job: DeadlineJob,
        asked: PlanJob,
        fixed: FixedMachine | None,
        options: Sequence[PlanOption],
        there: tuple[Sequence[PlanPool], Sequence[int]],
        level: float,
    ) -> JobEnd:
        pools, places = there
        fit = [one for one in options if one.survival >= level]
        ways = ways_after(fit, min(fit, key=lambda one: one.loss), pools)
        policy, terms = terms_of(asked, fixed, job.submit_us)
        columns = JobPolicy(tuple(one.times for one in ways), policy.on_demand, policy.margin_us).columns
        future = [(replace(pools[one.pool], past=self._future[places[one.pool]]), one.bid) for one in ways]
        starts = ReplayedStarts(np.array([job.submit_us]), np.ones(1), np.full((1, len(ways)), inf))
        row, stretches = replayed_with_stretches(0, starts, ways_of(future), terms, *columns)
        zones = [self._zones[places[ways[int(way)].pool]] if way >= 0 else None for way in stretches[:, 0]]
        paid = float(row[COST]) + _moving(job, zones)
        in_time = row[STATE] == DONE and row[ENDED] <= terms.left_us + 1.0
        return JobEnd(paid, bool(in_time), int(row[LAUNCHES]), int(row[LOST]))


def _plan_job(job: DeadlineJob) -> PlanJob:
    """Return a job as the planner knows it. Its checkpoint is read as from another zone, the longer of both."""
    read_us = resume_us(job.memory_gib, is_same_zone=False)
    times = CheckpointTimes(suspend_us(job.memory_gib), read_us)
    return PlanJob(
        str(job.number),
        int(job.own_us),
        job.units,
        0.0,
        job.deadline_us,
        0.0,
        parallelism=job.parallelism,
        checkpoint=times,
    )


def _moving(job: DeadlineJob, zones: Sequence[str | None]) -> float:
    """Return what moves between zones cost: the first gigabyte, later all of the memory; on demand it stays."""
    cost, last, gib = 0.0, job.zone, DATA_GIB
    for zone in zones:
        if zone is not None and zone != last:
            cost, last = cost + PER_GIB * gib, zone
        gib = job.memory_gib
    return cost


def _without_gaps(steps: PriceSteps) -> PriceSteps:
    """Return prices that hold through gaps and beyond the end: gaps revoke nothing."""
    price = steps.price.copy()
    for at in range(1, len(price)):
        if isnan(price[at]):
            price[at] = price[at - 1]
    return PriceSteps(steps.at_us, price, steps.end_us + _AFTER_US)
