"""The backtest of cost estimates: their mean relative error over runs that completed (3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.venues.rules.cost import (
    analog_cost,
    average_cost,
    market_cost,
    mixed_cost,
    past_starts,
    sampled_cost,
    settled_hours,
    true_cost,
)
from app.venues.rules.survival import availability_bid
from app.workbench.venues.bids import BidRequest, draw_requests
from app.workbench.venues.setting import BacktestSetting

COST_LEVELS = (0.0, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
ALPHAS = (1, 2, 4, 8)
DRAWN = 2_500
_SEED = 3_000


def backtest_cost(setting: BacktestSetting, method: str, levels: Sequence[float]) -> dict[str, Any]:
    """Return by level the mean relative error of each estimator; bids are the least with that availability."""
    requests = draw_requests(setting, DRAWN, _SEED)
    errors: dict[float, list[dict[str, float]]] = {level: [] for level in levels}
    for number, one in enumerate(requests, 1):
        truth = true_cost(setting.steps[one.pool], one.now_us, one.lifetime_us)
        for level in levels:
            bid = availability_bid(one.past, level, one.price)
            if one.highest <= bid:
                said = _thesis(setting, one, bid) if method == "thesis" else _learned(setting, one, bid)
                errors[level].append({name: abs(value - truth) / truth for name, value in said.items()})
        setting.progress(number, len(requests))
    return {f"{level:g}": _means(found) for level, found in errors.items()}


def _means(found: Sequence[dict[str, float]]) -> dict[str, float | int]:
    names = found[0] if found else ()
    return {name: float(np.mean([one[name] for one in found])) for name in names} | {"count": len(found)}


def _thesis(setting: BacktestSetting, one: BidRequest, bid: float) -> dict[str, float]:
    past = past_starts(one.past, setting.window_us, bid)
    alphas = {str(alpha): float(alpha) for alpha in ALPHAS} | {"avg": settled_hours(one.past, bid)}
    said = {
        "mkt": market_cost(one.price, one.lifetime_us),
        "avg": average_cost(one.past, bid, one.lifetime_us),
        "mc": sampled_cost(past, one.price, one.lifetime_us),
    }
    for name, alpha_h in alphas.items():
        said[f"ma_{name}"] = mixed_cost(one.past, None, bid, one.lifetime_us, alpha_h)
        said[f"mmc_{name}"] = mixed_cost(one.past, past, bid, one.lifetime_us, alpha_h)
    return said


def _learned(setting: BacktestSetting, one: BidRequest, bid: float) -> dict[str, float]:
    past = past_starts(one.past, setting.window_us, bid)
    return {
        "mkt": market_cost(one.price, one.lifetime_us),
        "analog": analog_cost(past, one.price, one.lifetime_us),
    }
