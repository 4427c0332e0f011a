"""The backtest of survival: how true the probability was that a bid lives for its lifetime."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars
from app.venues.rules.survival import lattice, share_alive, times_lasted
from app.workbench.venues.bounding import backtest_bounds
from app.workbench.venues.drawing import DrawnBid, draw_bids
from app.workbench.venues.scores import scores_of
from app.workbench.venues.setting import BacktestSetting
from app.workbench.venues.walking import WalkedSurvival, rows_of

DRAWN = 30_000
_SEED = 1_000


def backtest_survival(setting: BacktestSetting, method: str) -> dict[str, Any]:
    """Return the scores over random bids, and over those at the on-demand price alone."""
    drawn = draw_bids(setting, (setting.from_us, setting.to_us), DRAWN, _SEED)
    chances = _thesis(setting, drawn) if method == "thesis" else _learned(setting, drawn)
    survived = np.array([one.survived for one in drawn], np.float64)
    at_on_demand = np.array([one.multiple == 1.0 for one in drawn], np.bool_)
    return scores_of(chances, survived) | {
        "at_on_demand_price": scores_of(chances[at_on_demand], survived[at_on_demand]),
        "at_least": backtest_bounds(setting),
    }


def _thesis(setting: BacktestSetting, drawn: list[DrawnBid]) -> Dollars:
    """Return the Kaplan-Meier estimates of blind starts (4.7), from starts on a lattice instead of random ones."""
    chances = np.empty(len(drawn))
    for at, one in enumerate(drawn):
        starts_us = lattice(max(int(one.past.at_us[0]), one.now_us - setting.window_us), one.now_us, EVERY_US)
        chances[at] = share_alive(*times_lasted(one.past, starts_us, one.bid), one.lifetime_us)
        setting.progress(at + 1, len(drawn))
    return chances


def _learned(setting: BacktestSetting, drawn: list[DrawnBid]) -> Dollars:
    walked = WalkedSurvival(setting)
    rows = rows_of(setting, drawn)
    chances = [walked.at(one.now_us).chances(rows[at : at + 1])[0] for at, one in enumerate(drawn)]
    return np.array(chances)
