"""Survival under a bid: the share of past starts that would have lived for a lifetime.

An instance with bid b runs while the price is at most b; it is revoked when the price rises above b. A start at a time
at which the price is above b counts as revoked at once (thesis, 4.7, a *blind* start). A run that reaches a gap or the
end of the history is censored there. Prices are those of `history.PriceSteps`, as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from app.engine.cluster import Bools, Ints
from app.engine.compiled import compiled, inner
from app.venues.rules.history import Dollars, PriceSteps

UNKNOWN = -1
"""The time that a start lasted where the price at its start is unknown."""


def lattice(from_us: int, to_us: int, every_us: int) -> Ints:
    """Return evenly spaced starts in [from_us, to_us), each a whole multiple of the spacing."""
    return np.arange(-(-from_us // every_us) * every_us, to_us, every_us, dtype=np.int64)


@compiled
def prices_at(at_us: Ints, price: Dollars, times_us: Ints) -> Dollars:
    """Return the prices at rising times; NaN before the first step, and where they are unknown."""
    found = np.full(times_us.shape[0], np.nan)
    step = 0
    for i in range(times_us.shape[0]):
        while step + 1 < at_us.shape[0] and at_us[step + 1] <= times_us[i]:
            step += 1
        if at_us[step] <= times_us[i]:
            found[i] = price[step]
    return found


def times_lasted(steps: PriceSteps, starts_us: Ints, bid: float) -> tuple[Ints, Bools]:
    """Return for rising starts the time until revocation or censoring (UNKNOWN in a gap), and if it was revoked."""
    return lasted_under(steps.at_us, steps.price, steps.end_us, starts_us, bid)


@compiled
def lasted_under(at_us: Ints, price: Dollars, end_us: int, starts_us: Ints, bid: float) -> tuple[Ints, Bools]:
    """Compute `times_lasted` from the last start backwards, in one pass over steps and starts."""
    count = starts_us.shape[0]
    lasted_us, revoked = np.empty(count, np.int64), np.zeros(count, np.bool_)
    start, ends_us, is_revoked = count - 1, end_us, False
    while start >= 0 and starts_us[start] >= end_us:
        lasted_us[start] = UNKNOWN
        start -= 1
    for step in range(at_us.shape[0] - 1, -1, -1):
        if not price[step] <= bid:
            ends_us, is_revoked = at_us[step], price[step] > bid
        while start >= 0 and starts_us[start] >= at_us[step]:
            if price[step] <= bid:
                lasted_us[start], revoked[start] = ends_us - starts_us[start], is_revoked
            elif is_revoked:
                lasted_us[start], revoked[start] = 0, True
            else:
                lasted_us[start] = UNKNOWN
            start -= 1
    for before in range(start + 1):
        lasted_us[before] = UNKNOWN
    return lasted_us, revoked


@compiled
def share_alive(lasted_us: Ints, revoked: Bools, lifetime_us: int) -> float:
    """Return the Kaplan-Meier estimate of P(T >= lifetime), NaN without any start whose price is known."""
    known = lasted_us >= 0
    count = int(known.sum())
    return share_left(lasted_us, revoked, known, lifetime_us, count) if count else np.nan


@inner
def share_left(lasted_us: Ints, revoked: Bools, of: Bools, lifetime_us: int, at_risk: int) -> float:
    """Return the Kaplan-Meier estimate of P(T >= lifetime) from so many of the starts, 0.5 if there are none.

    Those that lasted for the lifetime may be left out of the arrays. It is the product over the distinct times of
    revocation before the lifetime, as in `forecast.survival`, at one point. Between two censored starts its factors
    cancel to the share that was revoked between them, so only the few censored ones are sorted. A start censored at a
    time still counts as at risk then.
    """
    if not at_risk:
        return 0.5
    censored = 0
    for start in range(lasted_us.shape[0]):
        censored += of[start] and lasted_us[start] < lifetime_us and not revoked[start]
    censored_us, lost, censored = np.empty(censored, np.int64), np.zeros(censored + 1), 0
    for start in range(lasted_us.shape[0]):
        if of[start] and lasted_us[start] < lifetime_us and not revoked[start]:
            censored_us[censored] = lasted_us[start]
            censored += 1
    censored_us.sort()
    for start in range(lasted_us.shape[0]):
        if of[start] and lasted_us[start] < lifetime_us and revoked[start]:
            lost[np.searchsorted(censored_us, lasted_us[start]) if lasted_us[start] else 0] += 1.0
    share = 1.0
    for part in range(lost.shape[0]):
        if lost[part]:
            share *= 1.0 - lost[part] / at_risk
        at_risk -= int(lost[part]) + 1
    return share


def highest_within(steps: PriceSteps, starts_us: Ints, lifetime_us: int) -> Dollars:
    """Return for rising starts the running maximum: the highest price of [start, start + lifetime), NaN if not known.

    It is the least bid that survives the lifetime.
    """
    return running_maximum(steps.at_us, steps.price, steps.end_us, starts_us, lifetime_us)


@compiled
def running_maximum(at_us: Ints, price: Dollars, end_us: int, starts_us: Ints, lifetime_us: int) -> Dollars:
    """Compute `highest_within` with a queue of falling prices, in one pass over steps and starts."""
    count, steps = starts_us.shape[0], at_us.shape[0]
    highest = np.full(count, np.nan)
    queue = np.empty(steps, np.int64)
    head, tail, entered, last_gap = 0, 0, 0, -1
    for i in range(count):
        start_us, stop_us = starts_us[i], starts_us[i] + lifetime_us
        while entered < steps and at_us[entered] < stop_us:
            if np.isnan(price[entered]):
                last_gap = entered
            else:
                while tail > head and price[queue[tail - 1]] <= price[entered]:
                    tail -= 1
                queue[tail] = entered
                tail += 1
            entered += 1
        while head < tail and _step_end(at_us, end_us, queue[head]) <= start_us:
            head += 1
        gone = last_gap < 0 or _step_end(at_us, end_us, last_gap) <= start_us
        if gone and stop_us <= end_us and steps and at_us[0] <= start_us and head < tail:
            highest[i] = price[queue[head]]
    return highest


@inner
def _step_end(at_us: Ints, end_us: int, step: int) -> int:
    return at_us[step + 1] if step + 1 < at_us.shape[0] else end_us


def least_bid(highest: Dollars, share: float, price_now: float) -> float:
    """Return the least bid, not below the price now, under which a share of the starts survives; NaN without any.

    It is the quantile of the running maximum (`highest_within`), exact: the thesis' bid (4.8) found without a search.
    """
    known = highest[~np.isnan(highest)]
    if not len(known):
        return float("nan")
    rank = ceil(share * len(known) - 1e-9)
    return max(price_now, float(np.partition(known, rank - 1)[rank - 1])) if rank else price_now


def share_surviving(highest: Dollars, bid: float) -> float:
    """Return the exact share of the wholly observed starts that survive under a bid; NaN without any."""
    known = highest[~np.isnan(highest)]
    return float(np.count_nonzero(known <= bid) / len(known)) if len(known) else float("nan")


def begun_under(highest: Dollars, prices: Dollars, bid: float) -> Dollars:
    """Return the running maxima of the starts that a bid could make, at a price of at most the bid; NaN for others."""
    return np.asarray(np.where(prices <= bid, highest, np.nan), np.float64)


class SeenUnder(NamedTuple):
    """The share that lived of the starts that a bid could make, NaN without any, and how many a lifetime apart."""

    share: float
    windows: int


def seen_under(highest: Dollars, prices: Dollars, starts_us: Ints, bid: float, lifetime_us: int) -> SeenUnder:
    """Return what a bid's starts show, as `begun_under`, `share_surviving` and `windows_of` say it, in one pass.

    `highest` (n) as `highest_within` gives it, `prices` (n) at the rising starts (n).
    """
    known, lived, windows = counted_under(highest, prices, starts_us, bid, lifetime_us)
    return SeenUnder(lived / known if known else float("nan"), windows)


@compiled
def counted_under(
    highest: Dollars, prices: Dollars, starts_us: Ints, bid: float, lifetime_us: int
) -> tuple[int, int, int]:
    """Return how many starts a bid could make whose end is known, how many of them lived, and how many windows."""
    known, lived, windows, last_us = 0, 0, 0, 0
    for start in range(highest.shape[0]):
        if prices[start] <= bid and not np.isnan(highest[start]):
            known += 1
            lived += highest[start] <= bid
            if windows == 0 or starts_us[start] - last_us >= lifetime_us:
                windows += 1
                last_us = starts_us[start]
    return known, lived, windows


def availability_bid(steps: PriceSteps, share: float, price_now: float) -> float:
    """Return the least price, not below the price now, that at least a share of the known time is strictly below.

    Where none is high enough, as at a share of 1, it is the highest one.
    """
    length_us = np.diff(np.append(steps.at_us, steps.end_us)).astype(np.float64)
    known = ~np.isnan(steps.price)
    prices, at = np.unique(steps.price[known], return_inverse=True)
    if not len(prices):
        return price_now
    spent = np.bincount(at, weights=length_us[known], minlength=len(prices))
    below = np.concatenate(([0.0], np.cumsum(spent)[:-1])) / spent.sum()
    fit = prices[(below >= share - 1e-12) & (prices >= price_now)]
    return float(fit[0]) if len(fit) else max(price_now, float(prices[-1]))


def least_shares(highest: Dollars, shares: Sequence[float]) -> Dollars:
    """Return for each share the least bid under which so many starts survive; NaN without any, -inf for a share of 0.

    As `least_bid`, but for several shares and whatever the price is now.
    """
    known = highest[~np.isnan(highest)]
    if not len(known):
        return np.full(len(shares), np.nan)
    ranks = [ceil(share * len(known) - 1e-9) for share in shares]
    known.partition(sorted({max(rank - 1, 0) for rank in ranks}))
    return np.array([known[rank - 1] if rank else -np.inf for rank in ranks])


def available_bids(steps: PriceSteps, shares: Sequence[float]) -> Dollars:
    """Return for each share the least price that at least so much of the known time is up to (5.12, 5.13)."""
    length_us = np.diff(np.append(steps.at_us, steps.end_us)).astype(np.float64)
    known = ~np.isnan(steps.price)
    order = np.argsort(steps.price[known], kind="stable")
    prices, spent = steps.price[known][order], np.cumsum(length_us[known][order])
    if not len(prices) or not spent[-1]:
        return np.full(len(shares), np.nan)
    places = spent.searchsorted(np.asarray(shares) * spent[-1] * (1.0 - 1e-12))
    return np.asarray(np.where(np.asarray(shares) > 0.0, prices[places], -np.inf), np.float64)


@compiled
def revocations_under(at_us: Ints, price: Dollars, end_us: int, bid: float) -> tuple[int, int]:
    """Return how often the price rose above a bid, and the time that it spent up to the bid."""
    count, spent_us = 0, 0
    for step in range(at_us.shape[0]):
        if price[step] <= bid:
            spent_us += _step_end(at_us, end_us, step) - at_us[step]
            if step + 1 < at_us.shape[0] and price[step + 1] > bid:
                count += 1
    return count, spent_us
