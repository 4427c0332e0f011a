"""Curves of a pool: each point as a quote's, never rising, the least bids exact, and evidence beside all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.curves import (
    LEVELS,
    LIFETIMES_US,
    CurveQuestion,
    PoolCurves,
    crossing_curves,
    observed_curves,
    usual_bids,
)
from app.venues.rules.features import FEATURES
from app.venues.rules.history import PoolName, PriceSteps
from app.venues.rules.learned import LearnedSurvival
from app.venues.rules.observed import ObservedPools, QuoteSource, Sighting, SightingKind, runs_of
from app.venues.rules.quotes import QuoteReason, learned_quote, pool_quote
from app.venues.rules.rates import ProviderRate, RateKind
from app.venues.rules.survival import highest_within, lattice, share_surviving
from app.venues.rules.training import LEVELS as LEVELS_TRAINED
from app.venues.rules.training import TrainedSurvival, priced

WINDOW_US = 60 * DAY_US
EFFECT = 8
POOL = PoolName("aws", "us-east-1", "us-east-1a", "c3.xlarge", "Linux/UNIX")


def moving(seed: int, days: int = 12, gap: bool = False) -> PriceSteps:
    """Return a price that moves every hour, perhaps with a day of which nothing is known."""
    draw = np.random.default_rng(seed)
    at_us = np.arange(0, days * DAY_US, HOUR_US, dtype=np.int64)
    price = np.round(0.03 * np.exp(draw.normal(0, 0.4, len(at_us))), 4)
    if gap:
        price[100:124] = np.nan
    return PriceSteps(at_us, price, int(at_us[-1]))


def curves_of(
    steps: PriceSteps, bids: tuple[float, ...] = (), lifetimes_us: tuple[int, ...] = LIFETIMES_US
) -> PoolCurves:
    question = CurveQuestion(bids, lifetimes_us, EFFECT)
    return crossing_curves(priced([steps], [0.21], WINDOW_US), 0.21, steps.end_us, question, None)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), hours=st.sampled_from([1, 2, 6, 12]), share=st.sampled_from([0.5, 0.9, 0.95]))
def test_a_point_is_what_a_quote_tells_of_the_same_bid(seed: int, hours: int, share: float) -> None:
    steps = moving(seed, gap=seed % 2 == 0)
    quote = pool_quote(steps, steps.end_us, WINDOW_US, hours * HOUR_US, share, EFFECT)
    assert quote.bid is not None
    [curve] = curves_of(steps, (quote.bid,), (hours * HOUR_US,)).curves
    [point] = curve.points
    assert (point.survival, point.at_least, point.windows) == (quote.survival, quote.at_least, quote.windows)
    assert curve.source is QuoteSource.PRICE_CROSSING


def test_a_learned_quote_tells_what_was_counted_beside_what_is_expected() -> None:
    """A model that thinks of every bid as of one that lives at .95; half of the past starts lived under the price."""
    model = LearnedSurvival(np.zeros(len(FEATURES)), np.ones(len(FEATURES)), np.array([3.0] + [0.0] * len(FEATURES)))
    trained = TrainedSurvival(model, (0.0,) * len(LEVELS_TRAINED), 29 * DAY_US, 1)
    at_us = np.arange(0, 30 * DAY_US, 2 * HOUR_US, dtype=np.int64)
    steps = PriceSteps(at_us, np.where(at_us // HOUR_US % 4 == 0, 0.03, 0.04), 30 * DAY_US + HOUR_US)
    pools = priced([steps], [0.21], WINDOW_US)
    found = learned_quote(pools, steps.end_us, 3 * HOUR_US, 0.9, EFFECT, trained)
    assert found is not None
    assert (found.survival, found.source, found.bid) == (pytest.approx(0.9), QuoteSource.LEARNED, pytest.approx(0.04))
    assert (found.counted, found.refuted) == (1.0, False)
    low = PriceSteps(at_us, np.where(at_us // HOUR_US % 4 == 2, 0.03, 0.04), 30 * DAY_US + HOUR_US)
    refuted = learned_quote(priced([low], [0.21], WINDOW_US), low.end_us, 3 * HOUR_US, 0.9, EFFECT, trained)
    assert refuted is not None
    assert (refuted.survival, refuted.counted, refuted.refuted) == (
        pytest.approx(0.9),
        pytest.approx(0.0, abs=0.01),
        True,
    )
    counted = pool_quote(steps, steps.end_us, WINDOW_US, 3 * HOUR_US, 0.9, EFFECT)
    assert (counted.survival, counted.counted, counted.refuted) == (1.0, 1.0, False)
    long = learned_quote(pools, steps.end_us, 90 * DAY_US, 0.9, EFFECT, trained)
    assert long is not None
    assert (long.why_not, long.bid, long.survival) == (QuoteReason.HISTORY_TOO_SHORT, None, None)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_curves_never_rise_and_are_bounded_by_their_evidence(seed: int) -> None:
    found = curves_of(moving(seed, gap=seed % 2 == 0))
    assert [curve.bid for curve in found.curves] == usual_bids(found.price or 0.0, 0.21)
    for curve in found.curves:
        known = [point for point in curve.points if point.survival is not None and point.at_least is not None]
        shares = [point.survival for point in known]
        assert shares == sorted(shares, reverse=True)
        bounds = [point.at_least for point in known]
        assert bounds == sorted(bounds, reverse=True)
        assert all(0.0 <= bound < 1.0 and bound <= share for bound, share in zip(bounds, shares, strict=True))


def test_least_bids_are_the_least_of_all_prices_that_reach_the_share() -> None:
    steps = moving(3)
    found, starts_us = curves_of(steps), lattice(0, steps.end_us, HOUR_US // 4)
    for at in (2, 6, 9):
        highest = highest_within(steps, starts_us, LIFETIMES_US[at])
        for level, least in zip(LEVELS, found.least_bids, strict=True):
            prices = np.unique(steps.price[steps.price >= found.price])
            fit = [bid for bid in prices.tolist() if share_surviving(highest, bid) >= level - 1e-9]
            assert least.bids[at] == pytest.approx(fit[0])


def test_a_constant_price_is_alive_for_certain_and_bounded_below_one() -> None:
    steps = PriceSteps(np.array([0], np.int64), np.array([0.05]), 40 * DAY_US)
    for curve in curves_of(steps).curves:
        assert {point.survival for point in curve.points} == {1.0}
        assert all(point.at_least is not None and point.at_least < 1.0 for point in curve.points)


def test_too_little_or_nothing_known_is_said() -> None:
    short = PriceSteps(np.array([0], np.int64), np.array([0.05]), 20 * HOUR_US)
    assert (curves_of(short).why_not, curves_of(short).curves) == (QuoteReason.HISTORY_TOO_SHORT, ())
    silent = PriceSteps(np.array([0, DAY_US], np.int64), np.array([0.05, np.nan]), 9 * DAY_US)
    assert (curves_of(silent).why_not, curves_of(silent).price) == (QuoteReason.PRICE_UNKNOWN, None)


def test_a_bid_that_no_start_could_make_has_no_share() -> None:
    [curve] = curves_of(moving(1), (0.0001,)).curves
    assert {(point.survival, point.at_least, point.windows) for point in curve.points} == {(None, None, 0)}


def test_observed_machines_have_one_curve_without_a_bid() -> None:
    seen = []
    for number in range(20):
        begin_us = number * HOUR_US
        seen.append(Sighting(POOL, f"i{number}", begin_us, SightingKind.STARTED))
        seen.append(Sighting(POOL, f"i{number}", begin_us + (number + 1) * HOUR_US, SightingKind.REVOKED))
    observed = ObservedPools(runs_of(seen, 100 * HOUR_US), {})
    question = CurveQuestion((), LIFETIMES_US, EFFECT)
    [curve] = observed_curves(observed, POOL, 0.1, question).curves
    assert (curve.bid, curve.source) == (None, QuoteSource.OBSERVED)
    shares = [point.survival for point in curve.points]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.1


def test_a_rate_alone_is_named_so_and_nothing_is_no_evidence() -> None:
    question = CurveQuestion((), LIFETIMES_US, EFFECT)
    rates = {POOL: ProviderRate(0, RateKind.OF_A_MONTH, 0.1)}
    [curve] = observed_curves(ObservedPools({}, rates), POOL, 0.1, question).curves
    assert curve.source is QuoteSource.PROVIDER_RATE
    assert {point.at_least for point in curve.points} == {0.0}
    assert observed_curves(ObservedPools({}, {}), POOL, None, question).why_not is QuoteReason.NO_EVIDENCE
