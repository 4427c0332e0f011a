"""The limits of what a plan may cost: replays that make progress at any time, counted steps, and an end."""

from __future__ import annotations

import subprocess
import sys
from math import inf, nan
from threading import Timer

import numpy as np
import pytest

from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, MAX_TIME_US, SECOND_US
from app.venues.rules.assign import PlanLimits
from app.venues.rules.calibrate import target_of
from app.venues.rules.history import PriceSteps
from app.venues.rules.jobreplay import (
    LAUNCHES,
    JobTerms,
    PlanStopped,
    ReplayedStarts,
    ReplayWork,
    TooManyLaunches,
    replayed_within,
)
from app.venues.rules.jobsteps import JobPolicy, WayTimes
from app.venues.rules.moldable import Parallelism
from app.venues.rules.planmaking import DeadlineImpossible, PlanQuestion, make_plan
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanPool, SurvivalSource, curve_of_rate
from app.venues.rules.planoptions import ways_of
from app.venues.rules.types import TYPE_COLUMNS, MachineType, read_types

NOW_US = 1_795_858_000_123_456
TEN_YEARS_US = 10 * 366 * DAY_US


def rated(units: float = inf) -> PlanPool:
    machine = MachineType(units, inf, 0.02)
    return PlanPool("r", machine, SurvivalSource.PROVIDER_RATE, steady=0.01, curve=curve_of_rate(0.05))


def asked(*jobs: PlanJob, launch_us: int = 0) -> PlanQuestion:
    return PlanQuestion(jobs, PlanLimits(), launch_us, NOW_US, 60 * DAY_US)


def plan_of_the_year_9999() -> None:
    times = CheckpointTimes(60 * SECOND_US, TEN_YEARS_US)
    job = PlanJob("j", TEN_YEARS_US, 0.0, 0.0, MAX_TIME_US, 0.95, checkpoint=times)
    assert make_plan(asked(job, launch_us=HOUR_US), [rated()]).jobs


def test_a_replay_ends_at_times_so_far_that_no_float_is_between() -> None:
    """In a process of its own, because nothing stops compiled code that does not end."""
    code = "from test_venue_plan_limits import plan_of_the_year_9999; plan_of_the_year_9999()"
    subprocess.run([sys.executable, "-c", code], cwd=__file__.rpartition("/")[0], timeout=120, check=True)


def waits(count: int) -> tuple[ReplayedStarts, JobTerms, tuple[WayTimes, ...], list[tuple[PlanPool, float]]]:
    """Return a replay that waits whenever one more of some pools can be had, of which none is of use."""
    far_us = 400 * DAY_US
    pools = [
        (PlanPool("a", MachineType(1.0, 1.0, 1.0), SurvivalSource.PRICE_CROSSING, past), 0.1)
        for at in range(count)
        for past in [PriceSteps(np.array([0, (at + 1) * HOUR_US]), np.array([0.2, 0.05]), far_us)]
    ]
    too_slow = WayTimes(float(300 * DAY_US), launch_us=float(300 * DAY_US))
    starts = ReplayedStarts(np.zeros(1, np.int64), np.ones(1), np.full((1, count), inf))
    return starts, JobTerms(float(100 * DAY_US), 1.0, 0), (too_slow,) * count, pools


@pytest.mark.parametrize("count", [1, 7])
def test_waits_are_steps_of_a_replay(count: int) -> None:
    starts, terms, ways, pools = waits(count)
    columns = JobPolicy(ways, WayTimes(float(DAY_US))).columns
    [row], left = replayed_within(starts, ways_of(pools), terms, *columns, 1000)
    assert row[LAUNCHES] == 1.0
    steps = 1000 - left
    assert steps == count + 2, "one for each, the last wait, and on demand"
    assert replayed_within(starts, ways_of(pools), terms, *columns, steps)[1] == 0
    assert replayed_within(starts, ways_of(pools), terms, *columns, steps - 1)[1] < 0


def test_a_plan_with_too_many_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.venues.rules.jobreplay.MOST_OF_PLAN", 8)
    starts, terms, ways, pools = waits(7)
    with pytest.raises(TooManyLaunches):
        ReplayWork().replayed("j", starts, ways_of(pools), terms, *JobPolicy(ways, WayTimes(float(DAY_US))).columns)


def test_a_plan_that_nobody_waits_for_is_given_up() -> None:
    work = ReplayWork()
    work.stop()
    with pytest.raises(PlanStopped):
        make_plan(asked(PlanJob("j", HOUR_US, 0.0, 0.0, NOW_US + DAY_US, 0.5)), [rated()], work)
    work = ReplayWork()
    Timer(0.2, work.stop).start()
    jobs = [PlanJob(f"j{at}", HOUR_US, 0.0, 0.0, NOW_US + DAY_US, 0.5) for at in range(20_000)]
    with pytest.raises(PlanStopped):
        make_plan(asked(*jobs), [rated()] * 3, work)


def test_a_machine_that_would_take_longer_than_any_plan_runs_nothing() -> None:
    moldable = PlanJob("j", TEN_YEARS_US, 1e6, 0.0, NOW_US + DAY_US, 0.5, parallelism=Parallelism(999_999.0, 0.0))
    assert moldable.run_us(MachineType(1.0, inf, nan)) == inf
    assert moldable.run_us(MachineType(5e5, inf, nan)) == pytest.approx(2 * TEN_YEARS_US, rel=0.01)
    with pytest.raises(DeadlineImpossible) as found:
        make_plan(asked(moldable), [rated(1.0)])
    assert found.value.earliest_us is None
    with pytest.raises(DeadlineImpossible) as found:
        make_plan(asked(moldable, launch_us=TEN_YEARS_US), [rated(4e5)])
    assert found.value.earliest_us is not None
    assert found.value.earliest_us < MAX_TIME_US
    worth = moldable._replace(deadline_us=None, value=1e9)
    past = PriceSteps(np.arange(0, 30 * DAY_US, HOUR_US) + NOW_US - 30 * DAY_US, np.full(720, 0.1), NOW_US)
    slow = PlanPool("a", MachineType(1.0, inf, 0.2), SurvivalSource.PRICE_CROSSING, past)
    [left_alone] = make_plan(asked(worth), [slow]).jobs
    assert left_alone.chosen.cost == 0.0


@pytest.mark.parametrize("numbers", ["1e-300,1024,1", "1e300,1024,1", "1,1024,1e300"])
def test_types_of_impossible_speed_or_price_are_refused(numbers: str) -> None:
    units, memory, price = numbers.split(",")
    with pytest.raises(InputError, match="line 2"):
        read_types([",".join(TYPE_COLUMNS), f"t,1,{units},{memory},{price},2015"])


def test_targets_of_the_least_shares_are_numbers() -> None:
    shares = [5e-324, 1e-308, 1e-300, 1e-12, 0.5, 1 - 2**-53]
    for shift in (-2.0, 0.0, 2.5):
        found = [target_of(share, shift) for share in shares]
        assert found == sorted(found)
        assert found[0] < 1e-300
        assert 0.0 < found[2] < 1e-298


class CountedWork(ReplayWork):
    """Work that counts its replays."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def replayed(self, *asked: object) -> np.ndarray:
        self.count += 1
        return super().replayed(*asked)  # type: ignore[arg-type]


def test_the_options_of_jobs_that_are_alike_are_found_once() -> None:
    deadline_us, pools = NOW_US + 10 * HOUR_US, [rated(), rated(2.0)]
    alike = [PlanJob(f"j{n}", HOUR_US, 1.0, 1.0, deadline_us, 0.5) for n in range(20)]
    other = PlanJob("other", 2 * HOUR_US, 1.0, 1.0, deadline_us, 0.5)
    counts = []
    for jobs in ([alike[0]], alike, [*alike, other]):
        work = CountedWork()
        made = make_plan(asked(*jobs), pools, work)
        assert [one.job.id for one in made.jobs] == [job.id for job in jobs]
        counts.append(work.count - len(jobs))
    assert counts == [2, 2, 4]
    alone = make_plan(asked(other), pools).jobs[0]
    assert (alone.chosen, alone.ways) == (made.jobs[-1].chosen, made.jobs[-1].ways)
