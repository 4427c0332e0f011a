"""The backtest of minimum bids: at each level, how many of the bids survived, and how high they were."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from app.domain.times import HOUR_US
from app.venues.rules.calibrate import moved_shift, target_of
from app.venues.rules.candidates import candidate_bids, least_reaching
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import highest_within, lattice, least_bid
from app.workbench.venues.drawing import highest_from
from app.workbench.venues.setting import BacktestSetting
from app.workbench.venues.walking import WalkedSurvival, row_of

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.97, 0.99)
DRAWN = 4_000
_SEED = 2_000


class BidRequest(NamedTuple):
    """A request for a bid, with the highest price that its lifetime met."""

    pool: int
    now_us: int
    lifetime_us: int
    past: PriceSteps
    highest: float

    @property
    def price(self) -> float:
        """Return the price now."""
        return float(self.past.price[-1])


def draw_requests(setting: BacktestSetting, count: int, seed: int) -> list[BidRequest]:
    """Return requests at random moments, by time, for 1 to 12 h in a random pool, that no gap hides."""
    draw = np.random.default_rng([setting.seed, seed])
    moments = np.sort(draw.integers(setting.from_us, setting.to_us, count)).tolist()
    pools = draw.integers(0, len(setting.steps), count).tolist()
    lifetimes_us = (draw.uniform(1.0, 12.0, count) * HOUR_US).astype(np.int64).tolist()
    found = []
    for now_us, pool, lifetime_us in zip(moments, pools, lifetimes_us, strict=True):
        past = setting.past(pool, now_us)
        highest = highest_from(setting.steps[pool], now_us, lifetime_us)
        if past is not None and now_us + lifetime_us <= setting.to_us and not np.isnan(highest):
            found.append(BidRequest(pool, now_us, lifetime_us, past, highest))
    return found


def backtest_bids(setting: BacktestSetting, method: str, levels: Sequence[float]) -> dict[str, Any]:
    """Return by level the share of bids that survived and the median of bid over price."""
    requests = draw_requests(setting, DRAWN, _SEED)
    found = _thesis(setting, requests, levels) if method == "thesis" else _learned(setting, requests, levels)
    return {f"{level:g}": _told(requests, bids) for level, bids in found.items()}


def _told(requests: Sequence[BidRequest], bids: Sequence[float]) -> dict[str, float | int | None]:
    if not requests:
        return {"success": None, "median_bid_over_price": None, "count": 0}
    ratios = [bid / one.price for one, bid in zip(requests, bids, strict=True)]
    survived = [one.highest <= bid for one, bid in zip(requests, bids, strict=True)]
    return {
        "success": float(np.mean(survived)),
        "median_bid_over_price": float(np.median(ratios)),
        "count": len(requests),
    }


def _thesis(
    setting: BacktestSetting, requests: Sequence[BidRequest], levels: Sequence[float]
) -> dict[float, list[float]]:
    """Return the bids of (4.8): quantiles of the running maximum over past starts."""
    found: dict[float, list[float]] = {level: [] for level in levels}
    for number, one in enumerate(requests, 1):
        starts_us = lattice(max(int(one.past.at_us[0]), one.now_us - setting.window_us), one.now_us, EVERY_US)
        highest = highest_within(one.past, starts_us, one.lifetime_us)
        for level in levels:
            found[level].append(least_bid(highest, level, one.price))
        setting.progress(number, len(requests))
    return found


def _learned(
    setting: BacktestSetting, requests: Sequence[BidRequest], levels: Sequence[float]
) -> dict[float, list[float]]:
    """Return the least candidates whose learned chance reaches the level's target, moved by outcomes known by then."""
    walked = WalkedSurvival(setting)
    targets = {level: MovingTarget(level) for level in levels}
    found: dict[float, list[float]] = {level: [] for level in levels}
    for number, one in enumerate(requests, 1):
        bids = candidate_bids(one.price, setting.on_demand[one.pool])
        chances = chances_of(setting, walked, one, bids)
        for level, target in targets.items():
            bid = float(bids[least_reaching(bids, chances, target.at(one.now_us))])
            target.promise(one.now_us + one.lifetime_us, survived=one.highest <= bid)
            found[level].append(bid)
        setting.progress(number, len(requests))
    return found


def chances_of(setting: BacktestSetting, walked: WalkedSurvival, one: BidRequest, bids: Dollars) -> Dollars:
    """Return the learned chance of each bid to live for the request's lifetime."""
    rows = row_of(setting, one.pool, one.past, bids.tolist(), one.lifetime_us)
    return walked.at(one.now_us).chances(rows)


class MovingTarget:
    """The target of a level; an outcome moves it once it is known, in order of time."""

    def __init__(self, level: float) -> None:
        self._level = level
        self._shift = 0.0
        self._awaited: list[tuple[int, bool]] = []

    def at(self, now_us: int) -> float:
        """Return the target at a time, after all outcomes known by then."""
        while self._awaited and self._awaited[0][0] <= now_us:
            _, survived = heappop(self._awaited)
            self._shift = moved_shift(self._shift, self._level, survived=survived)
        return target_of(self._level, self._shift)

    def promise(self, known_us: int, *, survived: bool) -> None:
        """Note an outcome that will be known at a time."""
        heappush(self._awaited, (known_us, survived))
