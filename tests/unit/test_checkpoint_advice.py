"""The rule of checkpoint advice: Young's formula at a constant hazard, and what a plan costs, by small steps."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.clusters.rules.advice import AdviceKind, AdviceTerms, Hazards, Plan, hazards_of, plan_checkpoints

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
