"""Cost estimates of venues against plain twins on random histories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venue_costs as plain

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules import cost
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import PriceSteps
from app.venues.rules.survival import lattice

PRICES = st.one_of(st.sampled_from([0.1, 0.11, 0.12, 0.3, 1.0]), st.just(math.nan))
QUARTERS = st.lists(st.tuples(st.integers(1, 20), PRICES), min_size=1, max_size=20)
LIFETIMES = st.integers(1, 5 * 60).map(lambda minutes: minutes * 60_000_000)
BIDS = st.sampled_from([0.1, 0.115, 0.3, 1.0])


def steps_of(lengths: list[tuple[int, float]]) -> PriceSteps:
    """Return steps of some quarters of an hour and a little; the price is known at the end."""
    lengths = [*lengths, (3, 0.11)]
    ends = np.cumsum([length * EVERY_US + 7_000_000 for length, _ in lengths])
    return PriceSteps(np.concatenate(([0], ends[:-1])), np.array([price for _, price in lengths]), int(ends[-1]))


@settings(max_examples=300, deadline=None)
@given(QUARTERS, BIDS, LIFETIMES)
def test_every_estimate_is_that_of_its_plain_twin(lengths: list, bid: float, lifetime_us: int) -> None:
    steps = steps_of(lengths)
    told = list(zip(steps.at_us.tolist(), steps.price.tolist(), strict=True))
    starts = lattice(0, steps.end_us, EVERY_US).tolist()
    past = cost.past_starts(steps, 60 * DAY_US, bid)

    def close(value: float) -> object:
        return pytest.approx(value, abs=1e-9)

    average = plain.average_cost(told, steps.end_us, bid, lifetime_us)
    sampled = plain.sampled_cost(told, steps.end_us, starts, bid, lifetime_us)
    assert cost.market_cost(0.11, lifetime_us) == close(0.11 * plain.hours(lifetime_us))
    assert cost.average_cost(steps, bid, lifetime_us) == close(average)
    assert cost.sampled_cost(past, 0.11, lifetime_us) == close(sampled)
    assert cost.settled_hours(steps, bid) == close(plain.settled_hours(told, steps.end_us, bid))
    assert cost.analog_cost(past, 0.11, lifetime_us) == close(
        plain.analog_cost(told, steps.end_us, starts, bid, lifetime_us)
    )
    for alpha in (1, 2):
        rest_us = lifetime_us - alpha * HOUR_US
        mixed, mixed_sampled = (cost.mixed_cost(steps, one, bid, lifetime_us, alpha) for one in (None, past))
        if rest_us <= 0:
            assert mixed == mixed_sampled == close(0.11 * plain.hours(lifetime_us))
            continue
        assert mixed == close(0.11 * alpha + plain.average_cost(told, steps.end_us, bid, rest_us))
        assert mixed_sampled == close(0.11 * alpha + plain.sampled_cost(told, steps.end_us, starts, bid, rest_us))


def test_the_true_cost_is_the_price_at_each_started_hour() -> None:
    steps = PriceSteps(np.array([0, HOUR_US, 2 * HOUR_US]), np.array([0.1, 0.2, 0.4]), 9 * HOUR_US)
    assert cost.true_cost(steps, HOUR_US // 2, HOUR_US) == pytest.approx(0.1)
    assert cost.true_cost(steps, HOUR_US // 2, HOUR_US + 1) == pytest.approx(0.3)
    assert cost.true_cost(steps, 0, 3 * HOUR_US) == pytest.approx(0.7)
