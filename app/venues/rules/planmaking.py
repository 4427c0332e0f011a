"""The planner: jobs in, for each a policy out, with cost and completion as distributions (docs/venues.md).

1. Each job's options in the pools that are worth a look. 2. A choice among them. 3. The ways to go on after a loss. 4.
The whole plan, replayed from the same past starts for all jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, isnan
from operator import itemgetter

import numpy as np

from app.domain.times import HOUR_US, SECOND_US
from app.engine.cluster import Ints
from app.venues.rules.assign import ChoiceMethod, PlanLimits, choose_options
from app.venues.rules.history import Dollars
from app.venues.rules.jobreplay import (
    COST,
    DONE,
    ENDED,
    FIXED,
    HIDDEN,
    LAUNCHES,
    STATE,
    ReplayedStarts,
    ReplayWork,
    replayed_segments,
)
from app.venues.rules.jobsteps import JobPolicy, WayTimes
from app.venues.rules.planned import FIXED_POOL, NO_POOL, PlanJob, PlanOption, PlanPool
from app.venues.rules.planoptions import (
    FixedMachine,
    KnownPool,
    fixed_option,
    idle_option,
    known_pool,
    pool_options,
    screened,
    terms_of,
    ways_of,
)

MOST_WAYS = 12
STARTS = 240
_SEED = 7_000


class DeadlineImpossible(Exception):
    """A deadline that no machine on demand meets. `earliest_us`: what one does meet, None if no machine is known."""

    def __init__(self, job: str, earliest_us: int | None) -> None:
        super().__init__(job)
        self.job, self.earliest_us = job, earliest_us


class BudgetImpossible(Exception):
    """A budget that no choice of options keeps. `least`: the cost of the cheapest one."""

    def __init__(self, least: float) -> None:
        super().__init__(f"{least:g}")
        self.least = least


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """The jobs, and what holds for all of them; a launch takes `launch_us` everywhere."""

    jobs: Sequence[PlanJob]
    limits: PlanLimits
    launch_us: int
    now_us: int
    window_us: int


@dataclass(frozen=True, slots=True)
class Replays:
    """A job's ends from the starts that could be watched to its end (n, 8), and these starts' numbers (n)."""

    found: Dollars
    starts: Ints


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job's choice, the ways to go on after it in order, the machine on demand, and its replays.

    typical, bad: the stretches of a replay of the median cost and of one that only a twentieth cost more than.
    """

    job: PlanJob
    left_us: float
    chosen: PlanOption
    ways: list[PlanOption]
    fixed: FixedMachine | None
    replays: Replays
    typical: Dollars
    bad: Dollars


@dataclass(frozen=True, slots=True)
class MadePlan:
    """The plans of all jobs; the cost of all of them from each start at which all could be watched (rising)."""

    jobs: list[JobPlan]
    method: ChoiceMethod
    gap: float
    costs: Dollars


def make_plan(question: PlanQuestion, pools: Sequence[PlanPool], work: ReplayWork | None = None) -> MadePlan:
    """Return the plan. Raises DeadlineImpossible, BudgetImpossible, TooManyLaunches, PlanStopped by its `work`."""
    work = work or ReplayWork()
    known = [known_pool(pool, question.window_us) for pool in work.each(pools)]
    fixed = [fixed_machine(job, pools, question) for job in work.each(question.jobs)]
    options = _all_options(known, fixed, question, work)
    choice = choose_options(options, pools, question.limits)
    if choice is None:
        raise BudgetImpossible(sum(min(one.cost for one in of_job) for of_job in options))
    rows = zip(question.jobs, options, choice.chosen, strict=True)
    ways = [_ways(job, of_job, of_job[chosen], pools) for job, of_job, chosen in rows]
    starts_us = plan_starts(question, [pools[at] for at in sorted({one.pool for of_job in ways for one in of_job})])
    jobs = [
        _job_plan(at, pools, fixed[at], (options[at][chosen], ways[at]), (starts_us, question), work)
        for at, chosen in enumerate(choice.chosen)
    ]
    return MadePlan(jobs, choice.method, choice.gap, _plan_costs(jobs))


def fixed_machine(job: PlanJob, pools: Sequence[PlanPool], question: PlanQuestion) -> FixedMachine | None:
    """Return the cheapest machine on demand that meets a job's deadline. Raises DeadlineImpossible."""
    found, earliest_us = list[FixedMachine](), inf
    firsts = {pools[at].machine: at for at in reversed(range(len(pools)))}
    for machine, at in sorted(firsts.items(), key=itemgetter(1)):
        run_us = job.run_us(machine)
        if isnan(machine.on_demand) or run_us == inf:
            continue
        takes_us = run_us + question.launch_us
        earliest_us = min(earliest_us, takes_us)
        if job.deadline_us is None or takes_us <= job.deadline_us - question.now_us:
            read_us = job.checkpoint.read_us if job.checkpoint is not None else 0.0
            times = WayTimes(run_us, read_us=read_us, launch_us=question.launch_us)
            price = machine.on_demand
            found.append(FixedMachine(at, times, price, price * ceil(takes_us / HOUR_US - 1e-9)))
    if not found and job.deadline_us is not None:
        in_time = question.now_us + ceil(earliest_us / SECOND_US) * SECOND_US if isfinite(earliest_us) else None
        raise DeadlineImpossible(job.id, in_time)
    return min(found, key=lambda one: one.cost, default=None)


def _all_options(
    known: Sequence[KnownPool], fixed: Sequence[FixedMachine | None], question: PlanQuestion, work: ReplayWork
) -> list[list[PlanOption]]:
    """Return the options of each job; those of jobs that differ in nothing but their ids are found once."""
    found, alike = dict[PlanJob, list[PlanOption]](), [job._replace(id="") for job in question.jobs]
    for job, like, of_job in zip(question.jobs, alike, fixed, strict=True):
        if like not in found:
            found[like] = job_options(job, known, of_job, question, work)
    return [found[like] for like in alike]


def job_options(
    job: PlanJob, known: Sequence[KnownPool], fixed: FixedMachine | None, question: PlanQuestion, work: ReplayWork
) -> list[PlanOption]:
    """Return a job's options that reach its probability, and those in no pool. Raises TooManyLaunches, PlanStopped."""
    found = [idle_option()] if job.deadline_us is None else []
    found += [fixed_option(job, fixed)] if fixed is not None else []
    for at in work.each(screened(job, known)):
        found += pool_options(job, at, known[at], fixed, question.now_us, question.launch_us, work)
    return [one for one in found if one.survival >= job.probability]


def plan_starts(question: PlanQuestion, pools: Sequence[PlanPool]) -> Ints:
    """Return evenly spaced starts of the window, from which the longest job can be watched to its deadline.

    `pools` are those of the ways alone: a pool that is known for a day must not shorten what others show.
    """
    ends = [pool.past.end_us for pool in pools if pool.past is not None]
    begins = [max(int(pool.past.at_us[0]), question.now_us - question.window_us) for pool in pools if pool.past]
    if not ends:
        return np.zeros(STARTS, np.int64)
    begin_us, end_us = max(begins), min(ends)
    lengths = [job.deadline_us - question.now_us if job.deadline_us else 2 * job.work_us for job in question.jobs]
    until_us = end_us - min(max(lengths), (end_us - begin_us) // 2)
    return np.linspace(begin_us, until_us, STARTS).astype(np.int64)


def _job_plan(
    at: int,
    pools: Sequence[PlanPool],
    fixed: FixedMachine | None,
    found: tuple[PlanOption, list[PlanOption]],
    asked: tuple[Ints, PlanQuestion],
    work: ReplayWork,
) -> JobPlan:
    (chosen, ways), (starts_us, question) = found, asked
    job = question.jobs[at]
    policy, terms = terms_of(job, fixed, question.now_us)
    columns = JobPolicy(tuple(one.times for one in ways), policy.on_demand, policy.margin_us).columns
    replaying = ways_of([(pools[one.pool], one.bid) for one in ways])
    starts = ReplayedStarts(starts_us, np.ones(len(starts_us)), _drawn(at, ways, pools, len(starts_us)))
    if chosen.pool == NO_POOL or (not ways and job.deadline_us is None):
        return _unreplayed(job, chosen, fixed)
    rows = work.replayed(job.id, starts, replaying, terms, *columns)
    seen = np.flatnonzero(rows[:, STATE] != HIDDEN)
    typical, bad = (
        replayed_segments(int(one), starts, replaying, terms, *columns) if one >= 0 else np.empty((0, 4))
        for one in _shown(rows, seen)
    )
    return JobPlan(job, terms.left_us, chosen, ways, fixed, Replays(rows[seen], seen.astype(np.int64)), typical, bad)


def _unreplayed(job: PlanJob, chosen: PlanOption, fixed: FixedMachine | None) -> JobPlan:
    """Return the plan of a job that is not run, or that runs on demand without a deadline: nothing can happen to it."""
    rows = np.zeros((STARTS, 8))
    rows[:, STATE] = chosen.done
    segments = np.empty((0, 4))
    if chosen.pool == FIXED_POOL:
        takes_us = chosen.times.launch_us + chosen.times.run_us
        rows[:, COST], rows[:, ENDED], rows[:, FIXED], rows[:, LAUNCHES] = chosen.cost, takes_us, takes_us, 1.0
        segments = np.array([[-2.0, 0.0, takes_us, 0.0]])
    return JobPlan(job, inf, chosen, [], fixed, Replays(rows, np.arange(STARTS)), segments, segments)


def _ways(
    job: PlanJob, options: Sequence[PlanOption], chosen: PlanOption, pools: Sequence[PlanPool]
) -> list[PlanOption]:
    """Return the ways of a job: one alone if it is launched once."""
    if job.deadline_us is not None:
        return ways_after(options, chosen, pools)
    return [chosen] if chosen.pool >= 0 else []


def ways_after(options: Sequence[PlanOption], chosen: PlanOption, pools: Sequence[PlanPool]) -> list[PlanOption]:
    """Return the chosen option and the best of other pools, those of groups that are not yet there first.

    A way that is expected to cost more than the machine on demand is none: on demand then goes on at once.
    """
    if chosen.pool < 0:
        return []
    found = [chosen]
    most = min((one.cost for one in options if one.pool == FIXED_POOL), default=inf)
    worth = (one for one in options if one.pool >= 0 and one.cost <= most)
    ranked = sorted(worth, key=lambda one: (one.loss, -one.survival))
    while len(found) < MOST_WAYS:
        groups, taken = {pools[one.pool].group for one in found}, {one.pool for one in found}
        left = [one for one in ranked if one.pool not in taken]
        if not left:
            break
        found.append(min(left, key=lambda one: pools[one.pool].group in groups))
    return found


def _drawn(at: int, ways: Sequence[PlanOption], pools: Sequence[PlanPool], count: int) -> Dollars:
    """Return the lifetimes of machines of steady price, drawn from their curves with a seed of the job's own."""
    draw = np.random.default_rng([_SEED, at])
    drawn = np.full((count, len(ways)), inf)
    for column, one in enumerate(ways):
        if (curve := pools[one.pool].curve) is not None:
            drawn[:, column] = curve.lifetimes_us(draw.random(count))
    return drawn


def _shown(rows: Dollars, seen: Ints) -> tuple[int, int]:
    """Return a start of the median cost and one that only a twentieth cost more than; -1 without any."""
    if not len(seen):
        return -1, -1
    order = seen[np.lexsort((rows[seen, ENDED], rows[seen, COST]))]
    return int(order[(len(order) - 1) // 2]), int(order[int(0.95 * (len(order) - 1))])


def _plan_costs(jobs: Sequence[JobPlan]) -> Dollars:
    """Return what all jobs cost together from each start at which all of them could be watched, rising."""
    sums, counts = np.zeros(STARTS), np.zeros(STARTS, np.int64)
    for one in jobs:
        np.add.at(sums, one.replays.starts, one.replays.found[:, COST])
        np.add.at(counts, one.replays.starts, 1)
    return np.sort(sums[counts == len(jobs)])


def share_done(plan: JobPlan) -> float:
    """Return the share of the replays in which a job was done in time."""
    found = plan.replays.found
    in_time = found[:, ENDED] <= plan.left_us + SECOND_US / 1000
    return float(np.mean((found[:, STATE] == DONE) & in_time)) if len(found) else float("nan")
