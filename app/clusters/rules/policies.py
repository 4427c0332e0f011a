"""Policies of checkpoints: at each evaluation, whether a running job is checkpointed now.

The manager evaluates every 30 s (TICK_US), as in the paper. HOUR and THRESHOLD are the paper's, THRESHOLD_CKPTMAN is
what its authors' program does; the others are known from the literature (YOUNG) or this service's own.
"""

from __future__ import annotations

import numpy as np

from app.clusters.rules.hazards import EVERY_US, LearnedHazard, cell_of
from app.domain.times import HOUR_US, SECOND_US
from app.engine.compiled import compiled, inner
from app.venues.rules.history import Dollars

NONE, HOUR, THRESHOLD, THRESHOLD_CKPTMAN, YOUNG, HAZARD, NOTICE = range(7)
NAMES = ("none", "hour", "threshold", "threshold_ckptman", "young", "hazard", "notice")
"""The policies that a run may have, and their names, in order. `auto` is one of the last two."""

TICK_US = 30 * SECOND_US
MARGIN_US = 180 * SECOND_US
"""HOUR takes its checkpoint when so little of an hour of the instance's life is left: the published program's value."""
_REVALUED_TICKS = 20
_CKPTMAN_TICKS = 2
_CKPTMAN_SHARE = 0.8

_THRESHOLD, _SUM, _SEEN, _RISK, _HOUR_DONE = range(5)


@compiled
def new_mind(price: float, bid: float) -> Dollars:
    """Return what a policy knows at a launch: threshold, sum of prices, last price, risk, last hour."""
    mind = np.zeros(5)
    mind[_THRESHOLD] = (price + bid) / 2.0
    mind[_HOUR_DONE] = -1.0
    return mind


@compiled
def hear(mind: Dollars, tick: int, price: float, bid: float) -> None:
    """Take the price of an evaluation: every ten minutes their mean gives a new threshold."""
    mind[_SUM] += price
    if tick % _REVALUED_TICKS == 0:
        mind[_THRESHOLD] = (mind[_SUM] / _REVALUED_TICKS + bid) / 2.0
        mind[_SUM] = 0.0


@inner
def hourly(mind: Dollars, tick: int) -> bool:
    """Tell if the instance's hour is nearly over, once in each hour."""
    life_us = tick * TICK_US
    if HOUR_US - life_us % HOUR_US >= MARGIN_US or mind[_HOUR_DONE] == life_us // HOUR_US:
        return False
    mind[_HOUR_DONE] = life_us // HOUR_US
    return True


@inner
def risen(mind: Dollars, tick: int, price: float, bid: float) -> bool:
    """Tell if the published program would act: each minute, on a price risen since, above four fifths of the bid."""
    if tick % _CKPTMAN_TICKS:
        return False
    has_risen = price > mind[_SEEN] and price > _CKPTMAN_SHARE * bid
    mind[_SEEN] = price
    return has_risen


@compiled
def take_risk(mind: Dollars, rate: float, at_risk_us: float, ran_us: float) -> None:
    """Add what the work done since the last checkpoint could have cost while it ran on for `ran_us`."""
    mind[_RISK] += rate * (at_risk_us - ran_us / 2.0) * ran_us


@inner
def floored(rate: float, learned: LearnedHazard, row: int, left_us: int) -> float:
    """Return a rate not below 1 / (time alive seen + time left): what no history shows may still happen."""
    return max(rate, float(1.0 / (learned.alive_us[row] + left_us)))


@inner
def rate_now(policy: int, learned: LearnedHazard, at_us: int, place: tuple[float, float, int], left_us: int) -> float:
    """Return the evictions per microsecond to expect; place: price, bid, the time since the price was above it."""
    row = (at_us - learned.first_us) // EVERY_US
    if policy == YOUNG:
        return floored(learned.overall[row], learned, row, left_us)
    price, bid, since_us = place
    return floored(learned.by_cell[row, cell_of(price, bid, since_us)], learned, row, left_us)


@compiled
def decide(
    policy: int, mind: Dollars, tick: int, place: tuple[float, float], rate: float, work: tuple[int, int, int]
) -> bool:
    """Tell if a job that runs is checkpointed now. work: at risk, left, and the pause that a checkpoint takes."""
    at_risk_us, left_us, pause_us = work
    price, bid = place
    if policy == HOUR:
        return hourly(mind, tick)
    if policy == THRESHOLD:
        return hourly(mind, tick) or price > mind[_THRESHOLD]
    if policy == THRESHOLD_CKPTMAN:
        return risen(mind, tick, price, bid) or hourly(mind, tick)
    if policy == YOUNG:
        return rate * (1.0 * at_risk_us * at_risk_us) >= 2.0 * pause_us
    return policy == HAZARD and mind[_RISK] >= pause_us and left_us >= pause_us


@compiled
def remember(mind: Dollars, price: float, bid: float) -> None:
    """Note a checkpoint: the threshold rises over the price that it was taken at, and no risk is left."""
    mind[_THRESHOLD] = (price + bid) / 2.0
    mind[_RISK] = 0.0
