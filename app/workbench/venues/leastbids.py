"""Least bids of a backtest by level, from the window before each full hour, kept for whoever asks again."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from app.domain.times import HOUR_US
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import available_bids, highest_within, lattice, least_shares, revocations_under
from app.workbench.venues.setting import BacktestSetting

_HUNDREDTHS = np.arange(1, 101) / 100.0


class LeastBids:
    """The least bids of pools by level: by reliability over a lifetime (5.11), or by availability without one (5.12).

    Lifetimes are rounded up to a quarter of an hour.
    """

    def __init__(self, setting: BacktestSetting, levels: Sequence[float]) -> None:
        self._setting, self._count, self._shares = setting, len(levels), [*levels, *_HUNDREDTHS.tolist()]
        self._bids: dict[tuple[int, int, int], Dollars] = {}
        self._hazards: dict[tuple[int, int, float], float] = {}
        self._rises: dict[tuple[int, int], float] = {}

    def least(self, pool: int, now_us: int, lifetime_us: float | None, level: int) -> float:
        """Return the least bid of a level, by its place among the levels (5.13); NaN if nothing is known, -inf at 0."""
        return float(self._of(pool, now_us, lifetime_us)[level]) if self._shares[level] else -inf

    def survival(self, pool: int, now_us: int, lifetime_us: float | None, bid: float) -> float:
        """Return the reliability or availability of a bid, rounded down to a hundredth."""
        reached = self._of(pool, now_us, lifetime_us)[self._count :].searchsorted(bid, side="right")
        return int(reached) / len(_HUNDREDTHS)

    def _of(self, pool: int, now_us: int, lifetime_us: float | None) -> Dollars:
        quarters = 0 if lifetime_us is None else -int(-lifetime_us // EVERY_US)
        key = pool, now_us // HOUR_US, quarters
        if key not in self._bids:
            past = self._past(pool, key[1])
            self._bids[key] = np.full(len(self._shares), np.nan) if past is None else self._found(past, quarters)
        return self._bids[key]

    def hazard_per_us(self, pool: int, now_us: int, bid: float) -> float:
        """Return how often a machine under a bid was revoked in the window, by the time that it could run."""
        key = pool, now_us // HOUR_US, bid
        if key not in self._hazards:
            past = self._past(*key[:2])
            count, spent_us = (0, 0) if past is None else revocations_under(past.at_us, past.price, past.end_us, bid)
            self._hazards[key] = count / max(spent_us, 1)
        return self._hazards[key]

    def rises_per_us(self, pool: int, now_us: int) -> float:
        """Return how often the price rose in the window, by its length."""
        key = pool, now_us // HOUR_US
        if key not in self._rises:
            past = self._past(*key)
            self._rises[key] = 0.0 if past is None else float((np.diff(past.price) > 0).sum()) / _length_us(past)
        return self._rises[key]

    def _past(self, pool: int, hour: int) -> PriceSteps | None:
        return self._setting.past(pool, hour * HOUR_US)

    def _found(self, past: PriceSteps, quarters: int) -> Dollars:
        if not quarters:
            return available_bids(past, self._shares)
        starts_us = lattice(max(int(past.at_us[0]), past.end_us - self._setting.window_us), past.end_us, EVERY_US)
        return least_shares(highest_within(past, starts_us, quarters * EVERY_US), self._shares)


def _length_us(past: PriceSteps) -> int:
    return max(past.end_us - int(past.at_us[0]), 1)
