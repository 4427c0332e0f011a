"""Bids drawn at random at past moments, with what happened to them: what a survival is learned from, and judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.domain.times import HOUR_US
from app.venues.rules.features import FEATURES, features_of
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import running_maximum

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


@dataclass(frozen=True, slots=True)
class PricedPools:
    """Pools by their places: their histories, their on-demand prices, and how far back each moment looks."""

    steps: Sequence[PriceSteps]
    on_demand: Sequence[float]
    window_us: int

    def past(self, pool: int, now_us: int) -> PriceSteps | None:
        """Return what the window before a moment shows of a pool; None if the price is unknown then."""
        steps = self.steps[pool]
        found = steps.between(now_us - self.window_us, now_us)
        if now_us > steps.end_us or not len(found.price) or np.isnan(steps.price_at(now_us)):
            return None
        if steps.at_us[steps.step_at(now_us)] == now_us:  # a change at this very moment is known
            at = steps.step_at(now_us) + 1
            first = max(steps.step_at(now_us - self.window_us), 0)
            return PriceSteps(steps.at_us[first:at], steps.price[first:at], now_us)
        return found if not np.isnan(found.price[-1]) else None

    def rows(self, pool: int, past: PriceSteps, bids: Sequence[float], lifetime_us: int) -> Dollars:
        """Return the features of several bids for one lifetime."""
        lifetimes_us = np.full(len(bids), lifetime_us, np.int64)
        return features_of(past, self.window_us, np.asarray(bids, np.float64), lifetimes_us, self.on_demand[pool])

    def rows_of(self, drawn: Sequence[DrawnBid]) -> Dollars:
        """Return the features of drawn bids."""
        rows = [self.rows(one.pool, one.past, [one.bid], one.lifetime_us) for one in drawn]
        return np.concatenate(rows) if rows else np.empty((0, len(FEATURES)))

    def draw_bids(self, span: tuple[int, int], count: int, seeds: Sequence[int]) -> list[DrawnBid]:
        """Return bids at random moments of [from, to), by time; those whose fate is known by `to` and that can begin.

        A third of the bids are multiples of the on-demand price, the others 1.02 to 3 times the price now; lifetimes
        are uniform on 1 to 24 h. A bid below the price cannot begin.
        """
        draw = np.random.default_rng([*seeds])
        moments = np.sort(draw.integers(span[0], max(span[1] - HOUR_US, span[0] + 1), count))
        pools = draw.integers(0, len(self.steps), count)
        lifetimes_us = (draw.uniform(1.0, 24.0, count) * HOUR_US).astype(np.int64)
        factors = draw.uniform(1.02, 3.0, count)
        kinds = draw.integers(0, 3 * len(_MULTIPLES), count)
        found = []
        for now_us, pool, lifetime_us, factor, kind in zip(
            moments.tolist(), pools.tolist(), lifetimes_us.tolist(), factors.tolist(), kinds.tolist(), strict=True
        ):
            past = self.past(pool, now_us)
            if past is None or now_us + lifetime_us > span[1]:
                continue
            multiple = _MULTIPLES[kind] if kind < len(_MULTIPLES) else 0.0
            price = float(past.price[-1])
            bid = multiple * self.on_demand[pool] if multiple else factor * price
            highest = highest_from(self.steps[pool], now_us, lifetime_us)
            if bid >= price and not np.isnan(highest):
                found.append(DrawnBid(pool, now_us, bid, lifetime_us, past, multiple, highest <= bid))
        return found


def highest_from(steps: PriceSteps, now_us: int, lifetime_us: int) -> float:
    """Return the highest price that a run from now meets, NaN if a gap or the end of the history hides it."""
    first, last = steps.step_at(now_us), int(steps.at_us.searchsorted(now_us + lifetime_us, side="left"))
    at_us, price = steps.at_us[first : last + 1], steps.price[first : last + 1]
    return float(running_maximum(at_us, price, steps.end_us, np.array([now_us], np.int64), lifetime_us)[0])
