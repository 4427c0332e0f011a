"""Bounds of survival, against plain twins, and how often they held on recorded prices."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venue_bounds as plain

from app.domain.times import DAY_US, from_rfc3339
from app.venues.rules.bounds import (
    DESIGN_EFFECTS,
    FIRST_EFFECT,
    design_effect,
    least_survival,
    most_survival,
    windows_of,
)
from app.venues.rules.calibrate import RunningRatio
from app.venues.rules.survival import begun_under, seen_under, share_surviving
from app.workbench.venues.bounding import backtest_bounds
from app.workbench.venues.opening import read_prices
from app.workbench.venues.ramp import SaidCosts
from app.workbench.venues.setting import setting_of

PRICES = Path(__file__).parents[3] / "shared/traces/market/us-east-1-2015.csv.gz"


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=40), st.integers(1, 20))
def test_windows_are_those_of_the_plain_twin(gaps: list[tuple[int, bool]], lifetime: int) -> None:
    starts = np.cumsum([gap for gap, _ in gaps]).astype(np.int64)
    highest = np.array([0.1 if known else math.nan for _, known in gaps], np.float64)
    found = windows_of(highest, starts, lifetime)
    assert found == plain.windows(starts.tolist(), [known for _, known in gaps], lifetime)


@settings(max_examples=500, deadline=None)
@given(
    st.floats(0.0, 1.0), st.integers(0, 5_000), st.sampled_from(DESIGN_EFFECTS), st.sampled_from([0.5, 0.9, 0.95, 0.99])
)
def test_the_least_survival_is_that_of_the_plain_twin(
    share: float, windows: int, effect: int, confidence: float
) -> None:
    found = least_survival(share, windows, effect, confidence)
    assert found == pytest.approx(plain.least_survival(share, windows / effect, confidence), abs=1e-9)
    assert found <= share + 1e-9
    assert found < 1.0
    most = most_survival(share, windows, effect, confidence)
    assert most == pytest.approx(1.0 - plain.least_survival(1.0 - share, windows / effect, confidence), abs=1e-9)
    assert most >= share - 1e-9


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(*[st.booleans()] * 5), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.95]))
def test_the_design_effect_is_that_of_the_plain_twin(covered: list, confidence: float) -> None:
    assert design_effect(covered, confidence) == plain.design_effect(covered, DESIGN_EFFECTS, confidence)


def test_a_venue_without_past_weeks_begins_with_a_design_effect() -> None:
    assert design_effect([], 0.95) == FIRST_EFFECT


def test_only_starts_that_a_bid_could_make_count() -> None:
    found = begun_under(np.array([0.2, 0.5, np.nan, 0.4]), np.array([0.1, 0.3, 0.1, np.nan]), 0.2)
    assert found[0] == 0.2
    assert np.isnan(found[1:]).all()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.1, 9.0)), max_size=30))
def test_a_running_ratio_is_that_of_its_plain_twin(outcomes: list[tuple[float, float]]) -> None:
    ratio = RunningRatio()
    for paid, said in outcomes:
        ratio.note(paid, said)
    assert ratio.value == pytest.approx(plain.running_ratio(outcomes), abs=1e-9)


def test_an_outcome_counts_for_its_type_once_it_is_known() -> None:
    costs = SaidCosts()
    costs.promise("a", 100, 3.0, 2.0)
    assert costs.calibrated("a", 2.0, 99) == 2.0
    assert costs.calibrated("b", 2.0, 100) == 2.0
    assert costs.calibrated("a", 2.0, 100) == pytest.approx(3.0)


@pytest.mark.skipif(not PRICES.is_file(), reason=f"the recorded prices are not in {PRICES}")
def test_bounds_hold_on_recorded_prices() -> None:
    now_us = from_rfc3339("2026-01-01T00:00:00Z")
    venue = read_prices(PRICES, now_us).venue()
    span = from_rfc3339("2015-06-12T00:00:00Z"), None
    found = backtest_bounds(setting_of(venue, {}, span, 60 * DAY_US, 0, lambda *_: None))
    assert found["count"] > 400
    assert found["coverage"] >= 0.93
    assert found["distance"] > 0.0


def test_one_pass_counts_what_the_three_rules_say() -> None:
    draw = np.random.default_rng(5)
    for _ in range(300):
        count = int(draw.integers(0, 40))
        starts = np.cumsum(draw.integers(1, 5, count)).astype(np.int64)
        prices, highest = (draw.integers(1, 6, count) / 10 for _ in range(2))
        prices[draw.random(count) < 0.1], highest[draw.random(count) < 0.2] = np.nan, np.nan
        bid, lifetime = float(draw.integers(0, 7) / 10), int(draw.integers(1, 12))
        begun = begun_under(highest, prices, bid)
        found = seen_under(highest, prices, starts, bid, lifetime)
        assert found.windows == windows_of(begun, starts, lifetime)
        assert found.share == pytest.approx(share_surviving(begun, bid), abs=0, nan_ok=True)
