"""Plain twins of the cost estimates of venues, as chapter 3 of the thesis writes them with its errors mended."""

from __future__ import annotations

import math
from itertools import pairwise

from oracles.venues import Steps, lasted, price_at

HOUR_US = 3_600_000_000


def hours(lifetime_us: int) -> int:
    return -(-lifetime_us // HOUR_US)


def true_cost(steps: Steps, start_us: int, lifetime_us: int) -> float:
    """Return the sum over started hours of the price at the hour's start."""
    return sum(price_at(steps, start_us + hour * HOUR_US) for hour in range(hours(lifetime_us)))


def average_cost(steps: Steps, end_us: int, bid: float, lifetime_us: int) -> float:
    """Return (3.2)."""
    times = [*(begin_us for begin_us, _ in steps), end_us]
    spent = [(price, after - before) for (_, price), (before, after) in zip(steps, pairwise(times), strict=True)]
    fit = [(price, length) for price, length in spent if price <= bid]
    whole = sum(length for _, length in fit)
    mean = sum(price * length for price, length in fit) / whole if whole else steps[-1][1]
    return hours(lifetime_us) * mean


def sampled_cost(steps: Steps, end_us: int, starts_us: list[int], bid: float, lifetime_us: int) -> float:
    """Return (3.3) over these starts; those whose fate a gap or the end hides are left out."""
    market = steps[-1][1] * hours(lifetime_us)
    found = []
    for start_us in starts_us:
        fate = lasted(steps, end_us, start_us, bid)
        if fate is None:
            continue
        if fate[0] >= lifetime_us:
            found.append(true_cost(steps, start_us, lifetime_us))
        elif fate[1]:
            found.append(market)
    return sum(found) / len(found) if found else market


def settled_hours(steps: Steps, end_us: int, bid: float) -> float:
    """Return the mean length of the steps up to the bid, in hours."""
    times = [*(begin_us for begin_us, _ in steps), end_us]
    spent = [b - a for (_, price), (a, b) in zip(steps, pairwise(times), strict=True) if price <= bid]
    return sum(spent) / HOUR_US / max(len(spent), 1)


def analog_cost(steps: Steps, end_us: int, starts_us: list[int], bid: float, lifetime_us: int) -> float:
    """Return the replayed cost of past starts near the price now."""
    now, count = steps[-1][1], hours(lifetime_us)
    sums, weights = [0.0] * count, 1.0
    for start_us in starts_us:
        fate = lasted(steps, end_us, start_us, bid)
        if fate is None or fate[0] < lifetime_us:
            continue
        price = price_at(steps, start_us)
        distance = math.log(price / now) / 0.05
        if abs(distance) > 6:
            continue
        age_d = (end_us - start_us) / (24 * HOUR_US)
        weight = math.exp(-(distance**2) / 2) * 0.5 ** (age_d / 10)
        weights += weight
        for hour in range(1, count):
            ratio = math.log(price_at(steps, start_us + hour * HOUR_US) / price)
            sums[hour] += weight * min(max(ratio, -0.6), 0.6)
    return now * sum(math.exp(one / weights) for one in sums)


def failed_cost(steps: Steps, end_us: int, starts_us: list[int], bid: float, lifetime_us: int, paid_us: int) -> float:
    """Return (4.16): the price now times the mean of the full hours, less those paid, of the runs that fail."""
    fates = [lasted(steps, end_us, start_us, bid) for start_us in starts_us]
    failing = [fate[0] for fate in fates if fate is not None and fate[1] and fate[0] < lifetime_us]
    paid = [max((lived_us - paid_us) // HOUR_US, 0) for lived_us in failing]
    return steps[-1][1] * sum(paid) / len(paid) if paid else 0.0


def replayed_cost(steps: Steps, end_us: int, starts_us: list[int], bid: float, lifetime_us: int) -> tuple[float, float]:
    """Return what completed and failed runs cost on average, past starts being replayed in the scale of their price."""
    now = steps[-1][1]
    done, failed = [(1.0, float(hours(lifetime_us)))], []
    for start_us in starts_us:
        price = price_at(steps, start_us)
        own_bid = bid * price / now * 1.0000001
        fate = lasted(steps, end_us, start_us, own_bid)
        if fate is None or (fate[0] < lifetime_us and not fate[1]):
            continue
        if start_us + lifetime_us > end_us:
            continue
        age_d = (end_us - start_us) / (24 * HOUR_US)
        weight = math.exp(-((math.log(price / now) / 0.05) ** 2) / 2) * 0.5 ** (age_d / 10)
        if fate[0] >= lifetime_us:
            done.append((weight, true_cost(steps, start_us, lifetime_us) / price))
        else:
            paid = sum(price_at(steps, start_us + hour * HOUR_US) for hour in range(fate[0] // HOUR_US))
            failed.append((weight, paid / price))
    return tuple(now * _mean(one) for one in (done, failed))


def _mean(weighed: list[tuple[float, float]]) -> float:
    return sum(w * value for w, value in weighed) / sum(w for w, _ in weighed) if weighed else 0.0
