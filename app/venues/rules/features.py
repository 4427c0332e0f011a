"""Features of a bid: what a pool's past says of a bid and a lifetime, for the learned survival.

Three Kaplan-Meier estimates from past starts (all; those at a price of at most the bid; those at a price near the one
now), how long the price stood above the bid, how far it is from the bid, how restless it is.
"""

from __future__ import annotations

from math import exp, isnan, log, sqrt

import numpy as np

from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.engine.cluster import Ints
from app.engine.compiled import compiled, inner
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import lasted_under, lattice, prices_at, share_left

FEATURES = (
    "alive_blind", "alive_started", "alive_near", "above_60d", "above_7d", "above_1d", "since_above",
    "bid_to_price", "bid_to_high_1h", "bid_to_high_24h", "bid_to_median_24h", "bid_to_high", "bid_to_on_demand",
    "restless_24h", "price_to_on_demand", "lifetime", "near_by_lifetime", "margin_by_lifetime", "margin_small",
    "above_recent", "bid_over_all", "never_above_7d",
)  # fmt: skip
EVERY_US = 900 * SECOND_US
"""Distance of the past starts of a history."""
_NEAR = 0.1
"""A price is near another one within this distance of their logarithms."""
_LOGIT_EDGE = 0.003
_NEAR_PRIOR = 8.0
"""Starts near the price are completed by this many that behave like the others started under the bid."""


def features_of(steps: PriceSteps, window_us: int, bids: Dollars, lifetimes_us: Ints, on_demand: float) -> Dollars:
    """Return one row of FEATURES for each bid and lifetime, at the end of the steps. The price must be known there."""
    starts_us = lattice(max(int(steps.at_us[0]), steps.end_us - window_us), steps.end_us, EVERY_US)
    out = np.empty((len(bids), len(FEATURES)))
    _fill(steps.at_us, steps.price, steps.end_us, starts_us, bids, lifetimes_us, on_demand, out)
    return out


@compiled
def _fill(
    at_us: Ints,
    price: Dollars,
    now_us: int,
    starts_us: Ints,
    bids: Dollars,
    lifetimes_us: Ints,
    on_demand: float,
    out: Dollars,
) -> None:
    now = price[price.shape[0] - 1]
    prices = prices_at(at_us, price, starts_us)
    high_hour = _highest(at_us, price, now_us - HOUR_US)
    high_day, middle_day, restless = _day(at_us, price, now_us)
    highest = _highest(at_us, price, at_us[0])
    for row in range(bids.shape[0]):
        bid, hours = bids[row], lifetimes_us[row] / HOUR_US
        blind, started, near = _three(at_us, price, now_us, starts_us, prices, now, bid, lifetimes_us[row])
        month, week, day, since_h = _time_above(at_us, price, now_us, bid)
        margin = log(bid / now)
        out[row, 0], out[row, 1], out[row, 2] = _logit(blind), _logit(started), _logit(near)
        out[row, 3], out[row, 4], out[row, 5], out[row, 6] = sqrt(month), sqrt(week), sqrt(day), log(since_h + 0.25)
        out[row, 7], out[row, 8], out[row, 9] = _bounded(margin), _bounded(log(bid / high_hour)), log(bid / high_day)
        out[row, 10], out[row, 11], out[row, 12] = log(bid / middle_day), log(bid / highest), log(bid / on_demand)
        out[row, 13], out[row, 14], out[row, 15] = restless, log(now / on_demand), log(hours)
        out[row, 16], out[row, 17] = _logit(near) * log(hours), _bounded(margin) * log(hours)
        out[row, 18], out[row, 19] = exp(-margin / 0.05), exp(-since_h / 6.0)
        out[row, 20], out[row, 21] = 1.0 * (bid >= highest), 1.0 * (week == 0.0)


@inner
def _logit(share: float) -> float:
    kept = min(max(share, _LOGIT_EDGE), 1.0 - _LOGIT_EDGE)
    return log(kept / (1.0 - kept))


@inner
def _bounded(value: float) -> float:
    return min(value, 2.5)


@inner
def _highest(at_us: Ints, price: Dollars, from_us: int) -> float:
    """Return the highest known price since a time; of the last step at least."""
    highest, step = price[price.shape[0] - 1], price.shape[0] - 1
    while step > 0 and at_us[step] > from_us:
        step -= 1
        highest = max(highest, price[step])
    return float(highest)


@inner
def _day(at_us: Ints, price: Dollars, now_us: int) -> tuple[float, float, float]:
    """Return of the last 24 h the highest price, the median and the deviation of its logarithm, by time."""
    first = max(int(np.searchsorted(at_us, now_us - DAY_US)) - 1, 0)
    begins = np.maximum(at_us[first:], now_us - DAY_US)
    lengths = np.append(begins[1:], now_us) - begins
    values = price[first:]
    fit = ~np.isnan(values) & (lengths > 0)
    if not fit.any():
        now = price[price.shape[0] - 1]
        return now, now, 0.0
    values, weights = values[fit], lengths[fit] / lengths[fit].sum()
    order = np.argsort(values)
    middle = values[order[min(np.searchsorted(np.cumsum(weights[order]), 0.5), order.shape[0] - 1)]]
    logs = np.log(values)
    mean = (logs * weights).sum()
    return values.max(), middle, sqrt(max((logs * logs * weights).sum() - mean * mean, 0.0))


@inner
def _time_above(at_us: Ints, price: Dollars, now_us: int, bid: float) -> tuple[float, float, float, float]:
    """Return the shares of known time above the bid (all, 7 d, 1 d) and the hours since it last was above."""
    above, known = np.zeros(3), np.zeros(3)
    since_us, ends_us = now_us - at_us[0], now_us
    for step in range(at_us.shape[0] - 1, -1, -1):
        if not isnan(price[step]):
            is_above = price[step] > bid
            if is_above and since_us > now_us - ends_us:
                since_us = now_us - ends_us
            known[0] += ends_us - at_us[step]
            above[0] += (ends_us - at_us[step]) * is_above
            for scale in range(1, 3 if ends_us > now_us - 7 * DAY_US else 1):
                begins_us = max(at_us[step], now_us - (7 * DAY_US if scale == 1 else DAY_US))
                if begins_us < ends_us:
                    known[scale] += ends_us - begins_us
                    above[scale] += (ends_us - begins_us) * is_above
        ends_us = at_us[step]
    shares = above / np.maximum(known, 1.0)
    return shares[0], shares[1], shares[2], since_us / HOUR_US


@inner
def _three(
    at_us: Ints,
    price: Dollars,
    now_us: int,
    starts_us: Ints,
    prices: Dollars,
    now: float,
    bid: float,
    lifetime_us: int,
) -> tuple[float, float, float]:
    """Return the Kaplan-Meier estimates from all starts, from those under the bid, and from those near the price."""
    lasted_us, revoked = lasted_under(at_us, price, now_us, starts_us, bid)
    low, high = now * exp(-_NEAR), now * exp(_NEAR)
    known, started, near, count = 0, 0, 0, 0
    short = np.empty_like(lasted_us)  # those that lasted for the lifetime are only counted
    for start in range(lasted_us.shape[0]):
        if lasted_us[start] >= 0:
            begins = prices[start] <= bid
            known, started, near = known + 1, started + begins, near + (begins and low <= prices[start] <= high)
            short[count] = start
            count += lasted_us[start] < lifetime_us
    short = short[:count]
    short_us, ended, told = lasted_us[short], revoked[short], prices[short]
    is_started = told <= bid
    is_near = is_started & (told >= low) & (told <= high)
    of_all = share_left(short_us, ended, np.ones_like(ended), lifetime_us, known)
    of_started = share_left(short_us, ended, is_started, lifetime_us, started)
    of_near = share_left(short_us, ended, is_near, lifetime_us, near)
    return of_all, of_started, (of_near * near + of_started * _NEAR_PRIOR) / (near + _NEAR_PRIOR)
