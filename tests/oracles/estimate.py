"""The calibrated estimate in plain Python: a formula for each kind of table, resource by resource.

Curves and outlook are the product's, which have oracles of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import exp, log, sqrt

from app.engine.outlook import Outlook
from app.forecast.rise import Rises

HOUR_US = 3_600_000_000
ENDS_US = [600_000_000 * 2**k for k in range(14)]


def estimate(rises: Rises, outlook: Outlook, lifetime_us: int) -> float:
    """Return the probability that a start with this outlook is evicted within the lifetime."""
    if not outlook.slots:
        return 0.9999
    asked = [r for r in range(len(outlook.demand)) if outlook.demand[r] and rises.counts[r]]
    return min(max([1e-4, *(_of_resource(rises, outlook, r, lifetime_us) for r in asked)]), 0.9999)


def _of_resource(rises: Rises, outlook: Outlook, r: int, lifetime_us: int) -> float:
    lifetime = max(lifetime_us, 60_000_000)
    rooms_us = [max(int(outlook.free[r]), 0) + int(outlook.released[r, k]) for k in range(14)]
    rise = [_line(rises, r, rises.shares[r, :, k].tolist(), rooms_us[k]) for k in range(14)]
    score = _weights(rises, outlook, r, lifetime, lifetime_us, rise)
    if rises.spreads[r] <= 0:
        return 1 / (1 + exp(-score - rises.level))
    beyond = max(int(outlook.free[r] - outlook.excess[r]), 0)
    record = lifetime / (rises.seen_us + lifetime) * exp(-beyond / (1.5 * float(rises.spreads[r])))
    level = rises.level + 0.5 * float(rises.activity[r])
    found = 1 / (1 + exp(-score))
    if not rises.heights.shape[1]:
        mean = sqrt(found * max(_at(_risen(rise), lifetime), record, 1e-5))
        return 1 / (1 + exp(-_logit(_inside(mean)) - level))
    tops = [_line(rises, r, rises.heights[r, :, k].tolist(), int(outlook.load[r]) + rooms_us[k]) for k in range(14)]
    near = [exp(-begin_us / (24 * HOUR_US)) for begin_us in [0, *ENDS_US[:-1]]]
    mixed = [w * one + (1 - w) * other for w, one, other in zip(near, rise, tops, strict=True)]
    chance = 1 - (1 - _at(_risen(mixed), lifetime)) * (1 - record)
    logit, small = _logit(_inside(sqrt(found * max(chance, 1e-5)))), _logit(0.03)
    return 1 / (1 + exp(-(small + 1.3 * (logit - small) if logit < small else logit) - level))


def _weights(rises: Rises, outlook: Outlook, r: int, lifetime: int, lifetime_us: int, rise: Sequence[float]) -> float:
    windows = [rises.seen_us / max(end_us, 6 * HOUR_US) for end_us in [0, *ENDS_US]]
    shrunk = [(n * g + 0.03) / (n + 1) for n, g in zip(windows, _risen(rise), strict=True)]
    capacity, demand = max(int(outlook.capacity[r]), 1), [int(one) for one in outlook.demand]
    free, unit = max(int(outlook.free[r]), 0), demand[r] / demand[0] if demand[0] else demand[r]
    below = min(max(int(outlook.free[r] - outlook.excess[r]) / capacity, -0.3), 0.5)
    score = -2.599 + 0.41 * _logit(_at([max(shrunk[: k + 1]) for k in range(15)], lifetime))
    score += 0.149 * log(lifetime / (rises.seen_us + lifetime)) + 0.477 * log((lifetime_us + HOUR_US / 12) / HOUR_US)
    score += -0.079 * log((free + unit) / capacity) - 1.28 * below + 0.777 * demand[r] / max(int(outlook.size[r]), 1)
    return score - 0.58 * log(1 + max(int(outlook.halves[r]), 0)) + 2.19 / outlook.slots


def _risen(shares: Sequence[float]) -> list[float]:
    """Return the highest share so far at 0 and at the end of each interval."""
    return [0.0, *(max(shares[: k + 1]) for k in range(14))]


def _at(values: Sequence[float], lifetime: int) -> float:
    for begin_us, end_us, low, high in zip([0, *ENDS_US], ENDS_US, values, values[1:], strict=False):
        if lifetime <= end_us:
            return low + (high - low) * (lifetime - begin_us) / (end_us - begin_us)
    return values[-1]


def _line(rises: Rises, r: int, shares: Sequence[float], room: int) -> float:
    rooms = rises.rooms[r, : rises.counts[r]].tolist()
    at = bisect_right(rooms, room)
    if at == len(rooms):
        return shares[at - 1]
    part = (room - rooms[at - 1]) / (rooms[at] - rooms[at - 1])
    return shares[at - 1] + (shares[at] - shares[at - 1]) * part


def _logit(probability: float) -> float:
    return log(probability / (1 - probability))


def _inside(probability: float) -> float:
    return min(max(probability, 1e-8), 1 - 1e-8)
