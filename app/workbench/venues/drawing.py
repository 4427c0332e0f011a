"""Bids drawn at random at past moments of a backtest, with what happened to them."""

from __future__ import annotations

from app.venues.rules.drawing import DrawnBid, highest_from
from app.workbench.venues.setting import BacktestSetting

__all__ = ["DrawnBid", "draw_bids", "highest_from"]


def draw_bids(setting: BacktestSetting, span: tuple[int, int], count: int, seed: int) -> list[DrawnBid]:
    """Return bids at random moments of [from, to), by time; see `PricedPools.draw_bids`."""
    return setting.pools.draw_bids(span, count, (setting.seed, seed))
