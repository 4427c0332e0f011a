"""Estimates of the cost of a run: the thesis' five (chapter 3), and the replay of past starts like now.

Billing is by the started hour, at the price at the hour's start. Costs are dollars, for a run that completes. Past
starts stand on a lattice, `PastStarts`, so that a price some hours after a start is found by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, isnan, log

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.engine.cluster import Bools, Ints
from app.engine.compiled import compiled
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import lasted_under, lattice, prices_at

_PER_HOUR = HOUR_US // EVERY_US
_NEAR = 0.05
"""Past starts count by a bell curve of this width in the logarithm of the price."""
_HALF_LIFE_US = 10 * DAY_US
_CLIP = 0.6
_PSEUDO_STARTS = 1.0
"""This many starts are added at which the price stayed as it was. Chosen, like the clip, on 2015-04-20 to 06-09."""


@dataclass(frozen=True, slots=True)
class PastStarts:
    """Starts of the past with their prices, and how long each would have lived under one bid."""

    starts_us: Ints
    prices: Dollars
    lasted_us: Ints
    revoked: Bools
    now_us: int


def past_starts(steps: PriceSteps, window_us: int, bid: float) -> PastStarts:
    """Return the starts of the window before the end of the steps."""
    starts_us = lattice(max(int(steps.at_us[0]), steps.end_us - window_us), steps.end_us, EVERY_US)
    prices = prices_at(steps.at_us, steps.price, starts_us)
    lasted_us, revoked = lasted_under(steps.at_us, steps.price, steps.end_us, starts_us, bid)
    return PastStarts(starts_us, prices, lasted_us, revoked, steps.end_us)


def true_cost(steps: PriceSteps, start_us: int, lifetime_us: int) -> float:
    """Return the cost of a run that completes."""
    hours_us = start_us + np.arange(ceil(lifetime_us / HOUR_US), dtype=np.int64) * HOUR_US
    return float(prices_at(steps.at_us, steps.price, hours_us).sum())


def market_cost(price: float, lifetime_us: int) -> float:
    """Return (3.1): the price now, for every hour."""
    return price * ceil(lifetime_us / HOUR_US)


def average_price(steps: PriceSteps, bid: float) -> float:
    """Return the mean by time of the prices up to the bid (3.2), NaN if there are none."""
    lengths_us = np.diff(np.append(steps.at_us, steps.end_us))
    fit = steps.price <= bid
    spent_us = float(lengths_us[fit].sum())
    return float((steps.price[fit] * lengths_us[fit]).sum() / spent_us) if spent_us else float("nan")


def average_cost(steps: PriceSteps, bid: float, lifetime_us: int) -> float:
    """Return (3.2): the average price for every hour; the market's where no price was up to the bid."""
    mean = average_price(steps, bid)
    return market_cost(float(steps.price[-1]) if isnan(mean) else mean, lifetime_us)


def sampled_cost(past: PastStarts, price: float, lifetime_us: int) -> float:
    """Return (3.3): the mean true cost of the past starts; one that was revoked counts as the market's cost now."""
    hours = ceil(lifetime_us / HOUR_US)
    return _sampled(past.prices, past.lasted_us, past.revoked, lifetime_us, hours, market_cost(price, lifetime_us))


@compiled
def _sampled(prices: Dollars, lasted_us: Ints, revoked: Bools, lifetime_us: int, hours: int, otherwise: float) -> float:
    whole, count = 0.0, 0
    for start in range(prices.shape[0]):
        if lasted_us[start] >= lifetime_us and start + (hours - 1) * _PER_HOUR < prices.shape[0]:
            for hour in range(hours):
                whole += prices[start + hour * _PER_HOUR]
            count += 1
        elif revoked[start]:
            whole += otherwise
            count += 1
    return whole / count if count else otherwise


def settled_hours(steps: PriceSteps, bid: float) -> float:
    """Return the mean time between changes to prices up to the bid, in hours (A.6, A.7 as they must be meant)."""
    lengths_us = np.diff(np.append(steps.at_us, steps.end_us))
    fit = steps.price <= bid
    return float(lengths_us[fit].sum() / HOUR_US / max(int(fit.sum()), 1))


def mixed_cost(steps: PriceSteps, past: PastStarts | None, bid: float, lifetime_us: int, alpha_h: float) -> float:
    """Return (3.4), or (3.5) if past starts are given: the price now for alpha hours, then the past's."""
    price, first_us = float(steps.price[-1]), ceil(alpha_h) * HOUR_US
    if lifetime_us <= alpha_h * HOUR_US or lifetime_us <= first_us:
        return market_cost(price, lifetime_us)
    rest_us = lifetime_us - first_us
    rest = average_cost(steps, bid, rest_us) if past is None else sampled_cost(past, price, rest_us)
    return market_cost(price, first_us) + rest


def analog_cost(past: PastStarts, price: float, lifetime_us: int) -> float:
    """Return the market's cost, each hour moved as prices like this one moved after past starts that completed.

    Starts weigh by their nearness in price and in time; the mean is of clipped logarithms, because a spike that a
    completed run does not see must not draw it.
    """
    hours = ceil(lifetime_us / HOUR_US)
    return price * _analog(past.starts_us, past.prices, past.lasted_us, past.now_us, log(price), lifetime_us, hours)


@compiled
def _analog(
    starts_us: Ints, prices: Dollars, lasted_us: Ints, now_us: int, log_price: float, lifetime_us: int, hours: int
) -> float:
    moved, logs = np.zeros(hours), np.log(prices)
    weights = _PSEUDO_STARTS
    for start in range(prices.shape[0]):
        if lasted_us[start] < lifetime_us or start + (hours - 1) * _PER_HOUR >= prices.shape[0]:
            continue
        begin = logs[start]
        distance = (begin - log_price) / _NEAR
        if abs(distance) > 6.0:
            continue
        weight = exp(-distance * distance / 2) * 0.5 ** ((now_us - starts_us[start]) / _HALF_LIFE_US)
        weights += weight
        for hour in range(1, hours):
            ratio = logs[start + hour * _PER_HOUR] - begin
            moved[hour] += weight * min(max(ratio, -_CLIP), _CLIP)
    whole = 0.0
    for hour in range(hours):
        whole += exp(moved[hour] / weights)
    return whole


def failed_cost(past: PastStarts, price: float, lifetime_us: int, paid_us: int) -> float:
    """Return (4.16): the price now for the mean of the full hours, beyond those paid, of the past runs that fail."""
    fails = past.revoked & (past.lasted_us >= 0) & (past.lasted_us < lifetime_us)
    hours = np.maximum((past.lasted_us[fails] - paid_us) // HOUR_US, 0)
    return price * float(hours.mean()) if len(hours) else 0.0


def success_cost(price: float, lifetime_us: int, paid_us: int) -> float:
    """Return (4.15): the price now for every hour that is not paid yet."""
    return market_cost(price, max(lifetime_us - paid_us, 0))


def replayed_costs(
    steps: PriceSteps, starts_us: Ints, prices: Dollars, bids: Dollars, lifetime_us: int
) -> tuple[Dollars, Dollars]:
    """Return for each bid the cost of a run that completes and of one that fails, at the end of the steps.

    Past starts near the price now are replayed with prices and bid in its scale; nearer and later ones weigh more, and
    one start at which nothing moves is added. Unlike `analog_cost` nothing is clipped: what is paid is a sum.
    """
    now = float(steps.price[-1])
    done, failed = np.empty(len(bids)), np.empty(len(bids))
    near = np.flatnonzero(np.abs(np.log(prices / now)) <= 3 * _NEAR)[::2]
    for at, bid in enumerate(bids.tolist()):
        done[at], failed[at] = _replayed(
            steps.at_us, steps.price, steps.end_us, starts_us[near], prices[near], bid / now, lifetime_us
        )
    return now * done, now * failed


@compiled
def _replayed(
    at_us: Ints, price: Dollars, end_us: int, starts_us: Ints, prices: Dollars, ratio: float, lifetime_us: int
) -> tuple[float, float]:
    """Return the costs in prices at the start: of completed runs and of failed ones."""
    hours = ceil(lifetime_us / HOUR_US)
    done, done_weight, failed, failed_weight, step = 1.0 * hours, 1.0, 0.0, 0.0, 0
    for start in range(starts_us.shape[0]):
        begin_us, price_then = starts_us[start], prices[start]
        while step + 1 < at_us.shape[0] and at_us[step + 1] <= begin_us:
            step += 1
        bill, paid, at, is_over, is_hidden = 0.0, 0.0, step, False, begin_us + lifetime_us > end_us
        hour_us = begin_us
        while not is_hidden and not is_over and hour_us < begin_us + lifetime_us:
            while not is_over and at + 1 < at_us.shape[0] and at_us[at + 1] <= hour_us:
                at += 1
                is_over |= price[at] > ratio * price_then * 1.0000001
                is_hidden |= isnan(price[at])
            if not is_over or at_us[at] == hour_us:
                paid = bill
            if not is_over:
                bill += price[at] / price_then
            hour_us += HOUR_US
        while not is_hidden and not is_over and at + 1 < at_us.shape[0] and at_us[at + 1] < begin_us + lifetime_us:
            at += 1
            is_over |= price[at] > ratio * price_then * 1.0000001
            is_hidden |= isnan(price[at])
        if is_hidden:
            continue
        distance = log(price_then) - log(price[price.shape[0] - 1])
        weight = exp(-((distance / _NEAR) ** 2) / 2) * 0.5 ** ((end_us - begin_us) / _HALF_LIFE_US)
        if is_over:
            failed, failed_weight = failed + weight * paid, failed_weight + weight
        else:
            done, done_weight = done + weight * bill, done_weight + weight
    return done / done_weight, failed / failed_weight if failed_weight else 0.0
