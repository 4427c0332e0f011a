"""Moments of injection: even, the same whenever they are drawn, and nested as a history grows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from app.domain.times import DAY_US
from app.forecast.moments import independent_moments, nested_moments

UNBOUNDED = 1e9


@pytest.mark.parametrize("count", [1, 10, 1000, 5000])
def test_there_are_as_many_as_asked_for(count: int) -> None:
    for span_us in (1, 2, 3, 1000, 30 * DAY_US):
        found = nested_moments([1], 5, 5 + span_us, count, UNBOUNDED)
        assert len(found) == count
        assert 5 <= found.min() <= found.max() < 5 + span_us
        assert (np.diff(found) >= 0).all()


def test_they_are_even_over_the_history() -> None:
    for span_us in (1000, 7 * DAY_US, 365 * DAY_US):
        found = nested_moments([1], 0, span_us, 20_000, UNBOUNDED)
        for part in range(10):
            inside = np.count_nonzero((found >= part * span_us // 10) & (found < (part + 1) * span_us // 10))
            assert abs(inside - 2000) < 5 * 2000**0.5


def test_those_of_a_longer_history_are_among_those_of_a_shorter_one() -> None:
    shorter, shorter_us = nested_moments([3], 9, 10, 2000, UNBOUNDED), 10
    for until_us in (11, 100, 5000, DAY_US, 3 * DAY_US, 3 * DAY_US + 1, 90 * DAY_US):
        longer = nested_moments([3], 9, until_us, 2000, 1500 / min(until_us - 9, 2 * DAY_US))
        assert set(longer[longer < shorter_us].tolist()) <= set(shorter.tolist())
        shorter, shorter_us = longer, until_us


def test_a_rate_bounds_them() -> None:
    found = nested_moments([1], 0, 100 * DAY_US, 100_000, 100 / DAY_US)
    assert abs(len(found) - 10_000) < 5 * 10_000**0.5


def test_the_key_chooses_them() -> None:
    for draw in (partial(nested_moments, highest_rate=UNBOUNDED), independent_moments):
        found, same, other = (draw(key, 0, DAY_US, 9).tolist() for key in ([1, 2], [1, 2], [1, 3]))
        assert found == same != other
