"""Run times of moldable jobs, and checkpoints, against plain twins."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venue_jobs as plain

from app.domain.times import HOUR_US
from app.venues.rules.checkpoints import (
    CheckpointRule,
    expected_pauses_us,
    guarded_run,
    interval_us,
    periodic_run,
    resume_us,
    rising_run,
    stopped_at,
    suspend_us,
)
from app.venues.rules.moldable import Parallelism, run_time_us, speed_up

PARALLEL = st.integers(20, 4000).map(lambda twentieths: Fraction(twentieths, 20))
SIGMA = st.integers(0, 100).map(lambda twentieths: Fraction(twentieths, 20))
UNITS = st.integers(10, 5000).map(lambda tenths: Fraction(tenths, 10))


@settings(max_examples=1000, deadline=None)
@given(UNITS, UNITS, PARALLEL, SIGMA)
def test_the_speed_up_is_that_of_its_plain_twin_and_larger_machines_are_never_slower(
    units: Fraction, other: Fraction, mean: Fraction, sigma: Fraction
) -> None:
    job = Parallelism(float(mean), float(sigma))
    found = speed_up(float(units), job)
    assert found == pytest.approx(float(plain.speed_up(units, mean, sigma)), abs=1e-9, rel=1e-12)
    assert speed_up(1.0, job) == pytest.approx(1.0, abs=1e-12)
    assert found <= min(float(units), job.mean) + 1e-9
    less, more = sorted((float(units), float(other)))
    assert speed_up(less, job) <= speed_up(more, job) + 1e-9
    assert run_time_us(1e9, 7.0, more, job) <= run_time_us(1e9, 7.0, less, job) * (1 + 1e-12)


@settings(max_examples=300, deadline=None)
@given(PARALLEL, SIGMA)
def test_the_speed_up_has_no_jump_where_its_formula_changes(mean: Fraction, sigma: Fraction) -> None:
    job = Parallelism(float(mean), float(sigma))
    for edge in (job.mean, 2 * job.mean - 1, job.mean + job.mean * job.sigma - job.sigma):
        sides = [speed_up(max(edge * (1 + step), 1.0), job) for step in (-1e-13, 1e-13)]
        assert sides[0] == pytest.approx(sides[1], abs=1e-9)


def test_a_rigid_job_runs_on_machines_that_are_fast_enough() -> None:
    assert run_time_us(5.0, 14.0, 13.9, None) == inf
    assert run_time_us(5.0, 14.0, 26.0, None) == 5.0
    assert run_time_us(5.0, 14.0, 28.0, Parallelism(1000.0, 0.0)) == pytest.approx(2.5)
    assert run_time_us(5.0, 14.0, 7.0, Parallelism(1000.0, 0.0)) == pytest.approx(10.0)


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 120), st.integers(0, 12), st.integers(1, 60), st.sets(st.integers(1, 200)), st.integers(0, 300))
def test_what_a_revocation_leaves_is_that_of_the_plain_twin(
    work: int, pause: int, every: int, rises: set[int], revoked: int
) -> None:
    for run, told in (
        (periodic_run(work, every, pause), (every, set[int]())),
        (periodic_run(work, inf, pause), (None, set[int]())),
        (rising_run(work, sorted(rises), pause), (None, rises)),
    ):
        ended, _ = plain.run_by_ticks(work, pause, *told, None)
        assert run.length_us == ended
        if revoked < ended:
            assert run.saved_after(revoked) == plain.run_by_ticks(work, pause, *told, revoked)[1]


def test_pauses_and_intervals_are_those_of_the_thesis() -> None:
    assert suspend_us(15.0) == pytest.approx(15 * 1024 / 63.67 * 1e6, abs=1)
    assert resume_us(15.0, is_same_zone=False) == pytest.approx(2 * resume_us(15.0, is_same_zone=True), abs=1)
    assert interval_us(CheckpointRule.NONE, 100, 0.1) == interval_us(CheckpointRule.RISING, 100, 0.1) == inf
    assert interval_us(CheckpointRule.HOURLY, 100, 0.1) == HOUR_US
    assert interval_us(CheckpointRule.HAZARD, 200, 0.0) == inf
    assert interval_us(CheckpointRule.HAZARD, 200, 1 / 10_000) == pytest.approx(2000.0)
    assert interval_us(CheckpointRule.HAZARD, 200, 1.0) == 200.0
    assert interval_us(CheckpointRule.HAZARD, 0, 1.0) == 60e6, "without end if they came after no work at all"
    hours = 2.5 * HOUR_US
    assert expected_pauses_us(CheckpointRule.HOURLY, hours, 7, HOUR_US, 0.0) == 14
    assert expected_pauses_us(CheckpointRule.NONE, hours, 7, inf, 1.0) == 0
    assert expected_pauses_us(CheckpointRule.RISING, hours, 7, inf, 4 / HOUR_US) == pytest.approx(70)


@settings(max_examples=500, deadline=None)
@given(
    st.integers(1, 120),
    st.integers(0, 12),
    st.integers(1, 60),
    st.integers(-20, 200),
    st.integers(0, 15),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.booleans(),
)
def test_a_guarded_run_can_be_revoked_at_any_time_and_the_rest_is_in_time_on_demand(
    work: int, pause: int, every: int, room: int, read: int, speed: float, is_saved: bool
) -> None:
    whole = periodic_run(work, every, pause)
    run = guarded_run(whole, room, read, speed, pause, is_saved=is_saved)
    assert run.is_cut or run.length_us <= whole.length_us
    for revoked in (0.0, *(end - 1e-6 for end in (*run.finished_us, run.length_us)), run.length_us):
        if 0.0 < revoked < run.length_us or (run.is_cut and revoked == run.length_us > 0.0):
            saved = run.saved_after(revoked)
            assert revoked <= room + saved * speed - (read if saved or is_saved else 0) + 1e-5
    assert run.saved_after(run.length_us) <= work
    if room >= whole.length_us + read:
        assert run == whole


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 20), st.integers(1, 80))
def test_a_run_that_leaves_at_the_end_of_an_hour_keeps_its_work(work: int, pause: int, every: int, ends: int) -> None:
    run = periodic_run(work, every, pause)
    found = stopped_at(run, ends, pause)
    told = None if found is None else (found.length_us, found.saved_us[-1])
    assert told == plain.stopped_by_ticks(work, pause, every, ends)
    if found is not None:
        assert found.is_cut
        assert found.finished_us[-1] == found.length_us
        assert found.saved_after(found.length_us) == found.length_us - len(found.finished_us) * pause
