"""Plain twins of the rules of venues: loops over steps, as the formulas are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Steps = Sequence[tuple[int, float]]


def price_at(steps: Steps, at_us: int) -> float:
    """Return the price of the last step that began by a time; NaN before the first."""
    return next((price for begin_us, price in reversed(steps) if begin_us <= at_us), math.nan)


def lasted(steps: Steps, end_us: int, start_us: int, bid: float) -> tuple[int, bool] | None:
    """Return how long a start lives under a bid and if it is revoked; None where its price is unknown."""
    price = price_at(steps, start_us)
    if math.isnan(price) or start_us >= end_us:
        return None
    if price > bid:
        return 0, True
    for begin_us, later in steps:
        if begin_us > start_us and not later <= bid:
            return begin_us - start_us, later > bid
    return end_us - start_us, False


def kaplan_meier(lives: Sequence[tuple[int, bool]], lifetime_us: int) -> float:
    """Return P(T >= lifetime): the product over distinct times of revocation before it of (1 - lost / at risk)."""
    share = 1.0
    for time_us in sorted({time_us for time_us, revoked in lives if revoked and time_us < lifetime_us}):
        at_risk = sum(1 for other_us, _ in lives if other_us >= time_us)
        lost = sum(1 for other_us, revoked in lives if revoked and other_us == time_us)
        share *= 1 - lost / at_risk
    return share


def highest(steps: Steps, end_us: int, start_us: int, lifetime_us: int) -> float:
    """Return the highest price of [start, start + lifetime), NaN where any of it is unknown."""
    stop_us = start_us + lifetime_us
    met = [price_at(steps, start_us)]
    met += [price for begin_us, price in steps if start_us < begin_us < stop_us]
    return math.nan if stop_us > end_us or any(map(math.isnan, met)) else max(met)


def least_bid(found: Sequence[float], prices: Sequence[float], share: float, now: float) -> float:
    """Return the least price of all, not below the one now, that at least a share of the running maxima stay within."""
    known = [one for one in found if not math.isnan(one)]
    fit = [bid for bid in sorted({*prices, now}) if bid >= now and _within(known, bid) >= share * len(known) - 1e-9]
    return fit[0]


def _within(known: Sequence[float], bid: float) -> int:
    return sum(1 for one in known if one <= bid)


def availability_bid(steps: Steps, end_us: int, share: float, now: float) -> float:
    """Return the least price, not below the one now, such that the price was below it for a share of known time."""
    times = [*(begin_us for begin_us, _ in steps), end_us]
    lengths = [(price, after - before) for (_, price), (before, after) in zip(steps, pairwise(times), strict=True)]
    known = [(price, length) for price, length in lengths if not math.isnan(price)]
    whole = sum(length for _, length in known)
    prices = sorted({price for price, _ in known})
    for bid in prices:
        if bid >= now and sum(length for price, length in known if price < bid) >= share * whole - 1e-12 * whole:
            return bid
    return max(now, prices[-1])


def brier(chances: Sequence[float], survived: Sequence[float]) -> float:
    """Return the mean squared distance of what was said and what happened."""
    return sum((said - came) ** 2 for said, came in zip(chances, survived, strict=True)) / len(chances)


def area_under_curve(chances: Sequence[float], survived: Sequence[float]) -> float:
    """Return the share of pairs (survivor, victim) in which the survivor was given more; ties count half."""
    alive = [said for said, came in zip(chances, survived, strict=True) if came]
    dead = [said for said, came in zip(chances, survived, strict=True) if not came]
    won = sum((a > d) + (a == d) / 2 for a in alive for d in dead)
    return won / (len(alive) * len(dead))


def history(
    pools: Sequence[Sequence[tuple[int, float]]], told: Sequence[tuple[int, int]], pool_silence: int, venue_silence: int
) -> tuple[list[list[tuple[int, float]]], list[tuple[int, int]]]:
    """Return the steps of each pool from its rows (time, price), and the gaps, found and told."""
    kept = [
        sorted({at: max(price for other, price in rows if other == at) for at, _ in rows}.items()) for rows in pools
    ]
    every = sorted({at for rows in kept for at, _ in rows})
    gaps = {(before, after) for before, after in pairwise(every) if after - before > venue_silence}
    gaps |= {gap for gap in told if gap[0] < every[-1]}
    found = []
    for rows in kept:
        ends = [at for at, _ in rows[1:]] + [every[-1]]
        values = {
            at: math.nan if end - at > pool_silence else price for (at, price), end in zip(rows, ends, strict=True)
        }
        values |= {begin: math.nan for begin, _ in gaps if begin > rows[0][0]}
        steps: list[tuple[int, float]] = []
        for at, price in sorted(values.items()):
            if not steps or str(steps[-1][1]) != str(price):  # nan is nan
                steps.append((at, price))
        found.append(steps)
    return found, sorted(gaps)
