"""The rule of checkpoint advice: Young's formula at a constant hazard, and what a plan costs, by small steps."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.clusters.rules.advice import AdviceKind, AdviceTerms, Hazards, Plan, fault_in, hazards_of, plan_checkpoints

HOUR = 3600.0
"""The rule knows no unit. Here everything is in seconds."""


def constant(rate: float, whole: float) -> Hazards:
    ends = np.linspace(whole / 40, whole, 40)
    return hazards_of(ends, -np.expm1(-rate * ends), 0.0)


@settings(max_examples=100, deadline=None)
@given(rate=st.floats(1e-7, 1e-3), pause=st.floats(1.0, 600.0), at_risk=st.floats(0.0, 1e5), whole=st.floats(HOUR, 1e6))
def test_a_constant_hazard_gives_youngs_interval(rate: float, pause: float, at_risk: float, whole: float) -> None:
    whole = min(whole, 9.0 / rate)  # forecasts say 0.9999 at most
    plan = plan_checkpoints(constant(rate, whole), AdviceTerms(pause, pause, 0.0, at_risk), 0.0)
    young = sqrt(2.0 * pause / rate)
    for work in plan.works_us[1:]:
        assert work == pytest.approx(young, rel=1e-4)
    if at_risk >= 1.001 * young and whole >= pause:
        assert plan.checkpoints_us[0] == 0.0
    elif at_risk < 0.999 * young and young - at_risk < whole - pause - 1e-3 * young:
        assert plan.checkpoints_us[0] == pytest.approx(young - at_risk, rel=1e-4, abs=1e-3 * young)
    assert all(at <= whole - pause + 1e-6 for at in plan.checkpoints_us)


def test_a_notice_that_is_long_enough_leaves_the_unannounced_losses() -> None:
    hazards, terms = constant(1e-4, 50 * HOUR), AdviceTerms(60.0, 100.0, 20.0, 0.0)
    waiting = plan_checkpoints(hazards, terms, 100.0)
    assert (waiting.kind, waiting.checkpoints_us, waiting.lost_us) == (AdviceKind.NOTICE, (), 0.0)
    assert waiting.overhead > 0.0
    assert plan_checkpoints(hazards, terms, 99.0).kind is AdviceKind.HAZARD
    lost = plan_checkpoints(hazards, terms._replace(losses=1e-5), 100.0)
    assert lost.works_us[1] == pytest.approx(sqrt(2 * 60.0 / 1e-5))


def test_where_nothing_is_certified_the_mean_hazard_goes_on() -> None:
    ends = np.array([1.0, 2.0, 3.0, 4.0])
    found = hazards_of(ends, np.array([0.1, 0.1, 1.0, 1.0]), 1e-9)
    mean = -np.log(0.9) / 2.0
    assert found.rates.tolist() == pytest.approx([2 * mean, 1e-9, mean, mean])
    assert hazards_of(ends, np.ones(4), 0.25).rates.tolist() == [0.25] * 4
    assert found.survival[-1] == pytest.approx(exp(-4 * mean - 1e-9))


@pytest.mark.parametrize("grace", [0.0, 1000.0])
@pytest.mark.parametrize("losses", [0.0, 2e-5])
def test_the_expectation_is_that_of_small_steps(grace: float, losses: float) -> None:
    ends = np.array([HOUR, 3 * HOUR, 10 * HOUR, 24 * HOUR])
    hazards = hazards_of(ends, np.array([0.2, 0.25, 0.3, 0.6]), 1e-6)
    terms = AdviceTerms(100.0, 300.0, 50.0, 500.0, losses)
    plan = plan_checkpoints(hazards, terms, grace)
    assert plan.overhead == pytest.approx(stepped(hazards, terms, plan), rel=0.01)


def stepped(hazards: Hazards, terms: AdviceTerms, plan: Plan, step: float = 1.0) -> float:
    """The expected time lost over that run, second by second. While it stands for a checkpoint no end is counted."""
    now, alive, at_risk, lost, ran, stood, due = 0.0, 1.0, terms.at_risk_us, 0.0, 0.0, 0.0, [*plan.checkpoints_us]
    loses = plan.kind is AdviceKind.HAZARD
    while now < hazards.ends_us[-1]:
        rate = float(hazards.rates[np.searchsorted(hazards.ends_us, now + step / 2)])
        if due and now >= due[0]:
            due.pop(0)
            counted = terms.losses + (rate if loses else 0.0)
            lost += alive * at_risk * -np.expm1(-counted * terms.write_us)
            stood += alive * terms.pause_us
            alive *= exp(-(rate + terms.losses) * terms.pause_us)
            now, at_risk = now + terms.pause_us, 0.0
            continue
        ended = alive * -np.expm1(-(rate + terms.losses) * step)
        evicted = ended * rate / (rate + terms.losses)
        lost += (ended if loses else ended - evicted) * (at_risk + step / 2)
        stood += ended * terms.restore_us + (0.0 if loses else evicted * terms.pause_us)
        ran += alive * step
        now, alive, at_risk = now + step, alive - ended, at_risk + step
    return (lost + stood) / (ran + stood)


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(1e-6, 1e-2), pause=st.floats(1.0, 300.0), write=st.floats(0.0, 900.0), at_risk=st.floats(0.0, 1e4)
)
def test_checkpoints_that_follow_each_other_are_counted_as_if_one_by_one(
    rate: float, pause: float, write: float, at_risk: float
) -> None:
    ends = np.array([HOUR, 5 * HOUR, 6 * HOUR])
    hazards = hazards_of(ends, -np.expm1(-rate * ends * np.array([1.0, 0.5, 0.6])), 1e-9)
    terms = AdviceTerms(pause, max(write, 1.0), 20.0, at_risk, 1e-7)
    plan = plan_checkpoints(hazards, terms, 0.0)
    singly = one_by_one(hazards, terms)
    assert abs(plan.count - len(singly)) <= 1, "where one falls on an end"
    for found, expected in zip(plan.checkpoints_us, singly, strict=False):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-3)


def one_by_one(hazards: Hazards, terms: AdviceTerms) -> list[float]:
    """The times of the rule followed with one checkpoint after the other."""
    now, at_risk, whole, found = 0.0, terms.at_risk_us, float(hazards.ends_us[-1]), list[float]()
    risk = (float(hazards.rates[0]) + terms.losses) * at_risk * at_risk / 2
    for end, rate in zip(hazards.ends_us.tolist(), (hazards.rates + terms.losses).tolist(), strict=True):
        while now < end:
            work = sqrt(at_risk * at_risk + 2 * max(terms.pause_us - risk, 0.0) / rate) - at_risk
            if now + work < end and whole - now - work >= terms.pause_us:
                found.append(now + work)
                now, at_risk, risk = now + work + terms.pause_us, 0.0, 0.0
            else:
                ran = end - now
                risk += rate * (at_risk + ran / 2) * ran
                now, at_risk = end, at_risk + ran
    return found


def test_a_plan_of_very_many_checkpoints_is_whole_and_soon_there() -> None:
    """A pause of a second in a year with a hazard of one a minute: no cut, and no wait."""
    day = 24 * HOUR
    hazards = Hazards(np.array([day, 365 * day]), np.array([1e-9, 1 / 60]), np.array([1.0, 0.0]))
    plan = plan_checkpoints(hazards, AdviceTerms(1.0, 1.0, 0.0, 0.0), 0.0)
    assert plan.count > 2_000_000
    assert len(plan.checkpoints_us) == 1000
    calm = constant(1e-6, 365 * day)
    slow, fast = (plan_checkpoints(calm, AdviceTerms(pause, pause, 0.0, 0.0), 0.0) for pause in (64.0, 1.0))
    assert fast.count > 8_000
    assert fast.overhead == pytest.approx(sqrt(2 * 1e-6), rel=0.05), "Young's: sqrt(2 C rate)"
    assert slow.overhead == pytest.approx(8 * fast.overhead, rel=0.05)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pause_us": 2e11}, "pause_s"),
        ({"write_us": 2e11}, "write_s"),
        ({"restore_us": 2e11}, "restore_s"),
        ({"at_risk_us": 4e13}, "at_risk_s"),
        ({"losses": 1e-6}, "loss_every_s"),
    ],
)
def test_terms_that_make_no_sense_are_told(changed: dict[str, float], said: str) -> None:
    terms = AdviceTerms(30e6, 60e6, 20e6, 0.0)
    assert fault_in(terms) is None
    assert said in (fault_in(terms._replace(**changed)) or "")
