"""Bids drawn at random at past moments, with what happened to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.domain.times import HOUR_US
from app.venues.rules.history import PriceSteps
from app.venues.rules.survival import running_maximum
from app.workbench.venues.setting import BacktestSetting

_MULTIPLES = (0.5, 1.0, 2.0, 10.0)


class DrawnBid(NamedTuple):
    """A bid at a moment in a pool, with the history that was known then and if it survived its lifetime."""

    pool: int
    now_us: int
    bid: float
    lifetime_us: int
    past: PriceSteps
    multiple: float
    survived: bool


def draw_bids(setting: BacktestSetting, span: tuple[int, int], count: int, seed: int) -> list[DrawnBid]:
    """Return bids at random moments of [from, to), by time; those whose fate is known by `to` and that can begin.

    A third of the bids are multiples of the on-demand price, the others 1.02 to 3 times the price now; lifetimes are
    uniform on 1 to 24 h. A bid below the price cannot begin.
    """
    draw = np.random.default_rng([setting.seed, seed])
    moments = np.sort(draw.integers(span[0], max(span[1] - HOUR_US, span[0] + 1), count))
    pools = draw.integers(0, len(setting.steps), count)
    lifetimes_us = (draw.uniform(1.0, 24.0, count) * HOUR_US).astype(np.int64)
    factors = draw.uniform(1.02, 3.0, count)
    kinds = draw.integers(0, 3 * len(_MULTIPLES), count)
    found = []
    for now_us, pool, lifetime_us, factor, kind in zip(
        moments.tolist(), pools.tolist(), lifetimes_us.tolist(), factors.tolist(), kinds.tolist(), strict=True
    ):
        past = setting.past(pool, now_us)
        if past is None or now_us + lifetime_us > span[1]:
            continue
        multiple = _MULTIPLES[kind] if kind < len(_MULTIPLES) else 0.0
        price = float(past.price[-1])
        bid = multiple * setting.on_demand[pool] if multiple else factor * price
        highest = highest_from(setting.steps[pool], now_us, lifetime_us)
        if bid >= price and not np.isnan(highest):
            found.append(DrawnBid(pool, now_us, bid, lifetime_us, past, multiple, highest <= bid))
    return found


def highest_from(steps: PriceSteps, now_us: int, lifetime_us: int) -> float:
    """Return the highest price that a run from now meets, NaN if a gap or the end of the history hides it."""
    first, last = steps.step_at(now_us), int(steps.at_us.searchsorted(now_us + lifetime_us, side="left"))
    at_us, price = steps.at_us[first : last + 1], steps.price[first : last + 1]
    return float(running_maximum(at_us, price, steps.end_us, np.array([now_us], np.int64), lifetime_us)[0])
