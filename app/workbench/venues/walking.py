"""The learned survival walked forward: at every moment only what had happened by then has been learned from."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from app.domain.times import DAY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.learned import LearnedSurvival, fit_survival
from app.workbench.venues.drawing import DrawnBid, draw_bids
from app.workbench.venues.setting import BacktestSetting

REFIT_EVERY_US = 10 * DAY_US
DRAWN_PER_BLOCK = 4_000
_FIRST_DAYS_US = 3 * DAY_US
"""Bids of the first days have too short a past to learn from."""
_DRAWS_SEED = 1


def rows_of(setting: BacktestSetting, drawn: Sequence[DrawnBid]) -> Dollars:
    """Return the features of drawn bids."""
    return setting.pools.rows_of(drawn)


def row_of(setting: BacktestSetting, pool: int, past: PriceSteps, bids: Sequence[float], lifetime_us: int) -> Dollars:
    """Return the features of several bids for one lifetime."""
    return setting.pools.rows(pool, past, bids, lifetime_us)


class WalkedSurvival:
    """Models by the moment from which each holds; none has seen anything that happened at or after it."""

    def __init__(self, setting: BacktestSetting) -> None:
        begin_us = setting.prices.from_us + _FIRST_DAYS_US
        edges = [*range(setting.from_us, setting.to_us, REFIT_EVERY_US)]
        blocks = [*_blocks(begin_us, setting.from_us), *itertools.pairwise(edges)]
        self._from_us, self._models = edges, list[LearnedSurvival]()
        rows, survived = [], []
        for number, span in enumerate(blocks):
            drawn = draw_bids(setting, span, DRAWN_PER_BLOCK, _DRAWS_SEED + number)
            rows.append(rows_of(setting, drawn))
            survived.append(np.array([one.survived for one in drawn], np.float64))
            if span[1] in edges:
                self._models.append(fit_survival(np.concatenate(rows), np.concatenate(survived)))
            setting.progress(number + 1, len(blocks))

    def at(self, now_us: int) -> LearnedSurvival:
        """Return the model of a moment."""
        return self._models[max(bisect_right(self._from_us, now_us) - 1, 0)]


def _blocks(begin_us: int, end_us: int) -> list[tuple[int, int]]:
    """Return stretches of about ten days that end at `end_us`."""
    count = max(round((end_us - begin_us) / REFIT_EVERY_US), 1)
    edges = [begin_us + (end_us - begin_us) * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))
