"""The bound on a risk: against the binomial distribution, and what it makes of little evidence."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.forecast.bound import SCALES_US, count_windows, upper_bound, windows_by_scale
from app.forecast.replay import Samples
from app.forecast.survival import estimate_buckets
from app.forecast.table import QuantileTable, make_curve

HOUR_US = 3_600_000_000


@given(st.integers(1, 200), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_the_bound_covers_at_its_level(count: int, portion: float, confidence: float) -> None:
    """Were the true risk the bound, a share as low as this one would have a chance of at most 1 - confidence."""
    evicted = int(portion * count)
    risk = upper_bound(evicted / count, count, confidence)
    assert evicted / count <= risk <= 1
    chance = sum(comb(count, k) * risk**k * (1 - risk) ** (count - k) for k in range(evicted + 1))
    assert chance <= 1 - confidence + 1e-9 or risk == 1


@pytest.mark.parametrize(("count", "risk"), [(1, 0.95), (10, 0.2589), (100, 0.02951), (1000, 0.002991)])
def test_without_evictions_the_bound_is_exact(count: int, risk: float) -> None:
    assert upper_bound(0.0, count, 0.95) == pytest.approx(risk, rel=1e-3)


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 300))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_windows_are_as_many_as_can_be(times: list[int], apart: int) -> None:
    """Against dynamic programming over the sorted times."""
    ordered = sorted(times)
    best = [0] * (len(ordered) + 1)
    for i in range(len(ordered) - 1, -1, -1):
        later = next((j for j in range(i + 1, len(ordered)) if ordered[j] - ordered[i] >= apart), len(ordered))
        best[i] = max(best[i + 1], 1 + best[later])
    assert count_windows(np.array(ordered, np.int64), apart) == best[0]


def test_a_thousand_samples_of_one_hour_are_one_piece_of_evidence_on_a_day() -> None:
    started_us = np.arange(1000) * HOUR_US // 1000
    windows = windows_by_scale(started_us)
    assert windows[0] == 59, "1000 moments, of which every 17th is a minute from the last"
    assert windows[-1] == 1
    samples = Samples(np.full(1000, 3), np.full(1000, 48 * HOUR_US), np.zeros(1000, np.bool_), started_us)
    table = QuantileTable(1, 0, 1, {"f": make_curve(estimate_buckets(samples))})
    assert table.bound("f", 3, 24 * HOUR_US, 0.95) == pytest.approx(0.95)
    assert table.bound("f", 3, SCALES_US[0], 0.95) == pytest.approx(1 - 0.05 ** (1 / 59))
    assert table.bound("f", 3, 49 * HOUR_US, 0.95) == 1.0, "nothing is certified beyond the longest time observed"
    assert table.bound("g", 3, HOUR_US, 0.95) is None
    stored = QuantileTable.from_bytes(table.to_bytes(), epoch=1, epoch_us=0, seq=1)
    assert stored.bound("f", 2, HOUR_US, 0.9) == table.bound("f", 2, HOUR_US, 0.9)
