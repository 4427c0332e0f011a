"""Survival under a bid, minimum bids and the learned survival, against plain twins on random histories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venues as plain

from app.domain.times import DAY_US, HOUR_US
from app.engine.cluster import Ints
from app.forecast.replay import Samples
from app.forecast.survival import estimate_buckets
from app.venues.rules.calibrate import HIGHEST_SHIFT, LOWEST_SHIFT, moved_shift, target_of
from app.venues.rules.candidates import candidate_bids, least_reaching
from app.venues.rules.features import FEATURES, features_of
from app.venues.rules.history import PriceSteps
from app.venues.rules.learned import fit_survival
from app.venues.rules.survival import (
    availability_bid,
    highest_within,
    lattice,
    least_bid,
    share_alive,
    share_surviving,
    times_lasted,
)
from app.workbench.venues.scores import scores_of

PRICES = st.one_of(st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0]), st.just(math.nan))
HISTORIES = st.lists(st.tuples(st.integers(1, 9), PRICES), min_size=1, max_size=25)


def steps_of(lengths: list[tuple[int, float]]) -> PriceSteps:
    ends = np.cumsum([length for length, _ in lengths])
    at_us = np.concatenate(([0], ends[:-1])).astype(np.int64)
    return PriceSteps(at_us, np.array([price for _, price in lengths]), int(ends[-1]))


def told(steps: PriceSteps) -> list[tuple[int, float]]:
    return list(zip(steps.at_us.tolist(), steps.price.tolist(), strict=True))


@settings(max_examples=400, deadline=None)
@given(HISTORIES, st.sampled_from([0.05, 0.2, 0.25, 0.5, 2.0]), st.integers(1, 30))
def test_lives_and_their_share_are_those_of_the_plain_twin(lengths: list, bid: float, lifetime_us: int) -> None:
    steps = steps_of(lengths)
    starts_us = np.arange(0, steps.end_us + 3, 2)
    lasted_us, revoked = times_lasted(steps, starts_us, bid)
    expected = [plain.lasted(told(steps), steps.end_us, int(start), bid) for start in starts_us]
    found = [
        None if lived_us < 0 else (lived_us, was)
        for lived_us, was in zip(lasted_us.tolist(), revoked.tolist(), strict=True)
    ]
    assert found == expected
    lives = [one for one in expected if one is not None]
    share = share_alive(lasted_us, revoked, lifetime_us)
    assert math.isnan(share) if not lives else share == pytest.approx(plain.kaplan_meier(lives, lifetime_us), abs=1e-9)


@settings(max_examples=400, deadline=None)
@given(HISTORIES, st.integers(1, 30), st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.9, 1.0]))
def test_the_least_bid_is_that_of_brute_force(lengths: list, lifetime_us: int, share: float) -> None:
    steps = steps_of(lengths)
    starts_us = np.arange(0, steps.end_us)
    found = highest_within(steps, starts_us, lifetime_us)
    expected = [plain.highest(told(steps), steps.end_us, int(start), lifetime_us) for start in starts_us]
    np.testing.assert_array_equal(found, expected)
    prices = steps.price[~np.isnan(steps.price)].tolist()
    if not np.isnan(found).all():
        for now in set(prices):
            bid = least_bid(found, share, now)
            assert bid == plain.least_bid(expected, prices, share, now)
            assert now <= bid <= max(prices)
            assert share_surviving(found, bid) >= share - 1e-9
    else:
        assert math.isnan(least_bid(found, share, 0.1))


@settings(max_examples=200, deadline=None)
@given(HISTORIES)
def test_shares_rise_with_the_bid_and_fall_with_the_lifetime(lengths: list) -> None:
    steps = steps_of(lengths)
    starts_us = np.arange(0, steps.end_us)
    by_bid = [share_surviving(highest_within(steps, starts_us, 5), bid) for bid in (0.05, 0.1, 0.3, 1.0)]
    by_lifetime = [share_alive(*times_lasted(steps, starts_us, 0.3), lifetime_us) for lifetime_us in range(1, 20)]
    assert all(math.isnan(share) for share in by_bid) or by_bid == sorted(by_bid)
    known = [share for share in by_lifetime if not math.isnan(share)]
    assert known == sorted(known, reverse=True)


@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]))
def test_the_availability_bid_is_that_of_the_plain_twin(lengths: list, share: float) -> None:
    steps = steps_of(lengths)
    known = steps.price[~np.isnan(steps.price)]
    for now in known.tolist():
        expected = plain.availability_bid(told(steps), steps.end_us, share, now)
        assert availability_bid(steps, share, now) == expected


def test_the_share_alive_is_the_forecasts_kaplan_meier() -> None:
    """The curve of the forecast, read just before a time, is the share that lives at least until then."""
    draw = np.random.default_rng(4)
    lasted_us, revoked = draw.integers(0, 40, 300), draw.random(300) < 0.6
    zeros: Ints = np.zeros(300, np.int64)
    [bucket] = estimate_buckets(Samples(zeros, lasted_us, revoked, zeros))
    for lifetime_us in range(1, 39):
        expected = 1 - bucket.probability(lifetime_us - 1)
        assert share_alive(lasted_us, revoked, lifetime_us) == pytest.approx(expected, abs=1e-9)


def hilly(days: int = 30, seed: int = 3) -> PriceSteps:
    """Return prices of steps of about half an hour around .1, with peaks."""
    draw = np.random.default_rng(seed)
    at_us = np.cumsum(draw.integers(600, 3600, days * 40)) * 1_000_000
    peaks = np.where(draw.random(len(at_us)) < 0.03, 5.0, 1.0)
    return PriceSteps(at_us, np.round(0.1 * np.exp(draw.normal(0, 0.2, len(at_us))) * peaks, 4), int(at_us[-1]) + 1)


def test_features_see_nothing_after_their_moment() -> None:
    steps = hilly()
    now_us = 20 * DAY_US
    bids, lifetimes_us = np.array([0.15, 0.4]), np.array([HOUR_US, 6 * HOUR_US])
    cut = steps.between(0, now_us)
    changed = PriceSteps(steps.at_us, np.where(steps.at_us >= now_us, 9.0, steps.price), steps.end_us)
    rows = features_of(cut, 30 * DAY_US, bids, lifetimes_us, 0.5)
    np.testing.assert_array_equal(rows, features_of(changed.between(0, now_us), 30 * DAY_US, bids, lifetimes_us, 0.5))
    assert rows.shape == (2, len(FEATURES))
    assert np.isfinite(rows).all()


def test_the_three_estimates_of_the_features_are_those_of_the_plain_twin() -> None:
    steps = hilly(days=4)
    bid, lifetime_us = 0.15, 3 * HOUR_US
    [row] = features_of(steps, 30 * DAY_US, np.array([bid]), np.array([lifetime_us]), 0.5)
    starts = lattice(int(steps.at_us[0]), steps.end_us, 900_000_000).tolist()
    lives = [(start, plain.lasted(told(steps), steps.end_us, start, bid)) for start in starts]
    blind = plain.kaplan_meier([one for _, one in lives if one], lifetime_us)
    started = plain.kaplan_meier(
        [one for start, one in lives if one and plain.price_at(told(steps), start) <= bid], lifetime_us
    )
    assert row[0] == pytest.approx(math.log(blind / (1 - blind)), abs=1e-9)
    assert row[1] == pytest.approx(math.log(started / (1 - started)), abs=1e-9)


def test_the_model_finds_the_weights_that_made_the_outcomes() -> None:
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(20_000, 3))
    chances = 1 / (1 + np.exp(-(0.5 + rows @ [1.0, -2.0, 0.0])))
    model = fit_survival(rows, (draw.random(20_000) < chances).astype(np.float64))
    assert np.abs(model.chances(rows) - chances).mean() < 0.01


def test_a_model_of_one_outcome_alone_stays_finite() -> None:
    model = fit_survival(np.zeros((10, 2)), np.ones(10))
    assert 0.5 < model.chances(np.zeros((1, 2)))[0] < 1.0


def test_misses_raise_the_target_and_balance_at_the_promise() -> None:
    assert target_of(0.9, 0.0) == pytest.approx(0.9)
    assert moved_shift(0.0, 0.9, survived=False) == pytest.approx(0.225)
    assert moved_shift(0.0, 0.9, survived=True) == pytest.approx(-0.025)
    shift = 0.0
    for _ in range(100):
        shift = moved_shift(shift, 0.9, survived=False)
    assert shift == HIGHEST_SHIFT
    for _ in range(500):
        shift = moved_shift(shift, 0.5, survived=True)
    assert shift == LOWEST_SHIFT


def test_the_least_candidate_that_reaches_its_target_is_taken_else_the_best() -> None:
    bids = candidate_bids(0.1, 0.5)
    assert bids[0] == 0.1
    assert bids[-1] == 5.0
    assert least_reaching(np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.95, 0.9]), 0.9) == 1
    assert least_reaching(np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.8, 0.7]), 0.9) == 1
    assert candidate_bids(9.0, 0.5).tolist() == [9.0]


def test_scores_are_those_of_the_plain_twins() -> None:
    draw = np.random.default_rng(2)
    chances = draw.choice([0.1, 0.4, 0.4, 0.9], 200)
    survived = (draw.random(200) < chances).astype(np.float64)
    scores = scores_of(chances, survived)
    assert scores["brier"] == pytest.approx(plain.brier(chances.tolist(), survived.tolist()), abs=1e-12)
    assert scores["auc"] == pytest.approx(plain.area_under_curve(chances.tolist(), survived.tolist()), abs=1e-12)
    sure = scores_of(np.ones(5), np.ones(5))
    assert (sure["brier"], sure["ece"], sure["auc"]) == (0.0, 0.0, None)
