"""The calibrated estimate: the probability that a spot start is evicted within its declared lifetime.

It is a logistic model over the rise curve and over what the start would find and leave (`engine.outlook`). Its weights
were fitted on 59 simulated runs of other clouds and are the same for every cloud (docs/forecast.md, *The calibrated
forecast*). Beside it stands the *chance of a rise or a record*, which was fitted to nothing: either the load does what
it did after past moments and takes the room, or the lifetime brings a load that the history does not know and that
takes the room beyond the highest one too. In the near future the load does what it did if it *rises* by as much; far
ahead, if it comes to lie as *high*, because the load of this moment says little about next week's. The estimate is the
geometric mean of both, small ones moved apart; the level, which is added to its logit, is the cloud's own (`level`). A
start that asks for several resources has the highest of their estimates: the scarcest one binds. In every resource more
room never makes the estimate higher, a longer lifetime never makes it lower, and it is never 0 or 1. A table from
before there were heights or spreads is read as it was then.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US
from app.engine.compiled import compiled, inlined, inner
from app.engine.intervals import BIN_US, EDGES_US, INTERVAL_COUNT
from app.engine.outlook import Outlook
from app.forecast.rise import Rises
from app.forecast.survival import Floats

LEAST = 1e-4
"""The lowest estimate that is ever given; the highest is 1 - LEAST."""
PRIOR_SHARE = 0.03
"""The share that passes in the one window that stands for the experience of other clouds."""
SHORTEST_WINDOW_US = 36 * EDGES_US[0]
"""Six hours. Starts closer together are one window, because the bursts of a day's load last that long."""
INTERCEPT = -2.599
RISE = 0.41
UNSEEN = 0.149
LENGTH = 0.477
SCARCITY = 0.079
BELOW_PEAK = 1.28
FLAVOR_SIZE = 0.777
HALF_NODES = 0.58
FEW_SLOTS = 2.19
ACTIVITY = 0.5
"""Chosen after the others, on runs of the yardsticks."""
RECORD_SPREADS = 1.5
"""A record exceeds the highest load so far by so many spreads of the daily peaks, on average."""
SMALL = 0.03
STRETCH = 1.3
"""Below SMALL the logit of an estimate is so many times as far from that of SMALL: unstretched, they lay too near to
each other."""
NEARNESS = np.exp(-np.array([0, *EDGES_US[:-1]]) / DAY_US)
"""The weight of a rise in each interval, by the time of its beginning; a height has the rest."""
_LEAST_CHANCE = 1e-5
_SMALL_AGAINST = (1.0 - SMALL) / SMALL
_LEAST_LIFETIME_US = EDGES_US[0] // 10
_HOUR_US = 6 * EDGES_US[0]
_LENGTH_SHIFT_US = EDGES_US[0] // 2
_LONGEST_US = 1 << 55
"""More than a thousand years: longer lifetimes are not told apart."""


class _Sight(NamedTuple):
    """The figures of one resource for an outlook.

    repeated (K + 1): the share of past moments after which the load took the room by the ends of the intervals;
    reached (K + 1): G there, shrunk; score: the part that the lifetime does not change; record: the probability that a
    record takes the room beyond the highest load, below 0 if the table does not tell the spread; level: what is added
    to the logit at last; has_heights: False if the table has none.
    """

    repeated: Floats
    reached: Floats
    score: float
    record: float
    level: float
    seen_us: int
    has_heights: bool


@compiled
def eviction_probability(rises: Rises, outlook: Outlook, lifetime_us: int) -> float:
    """Return the estimate for a start with this outlook."""
    if outlook.slots <= 0:
        return 1.0 - LEAST
    highest = LEAST
    for r in range(outlook.demand.shape[0]):
        if outlook.demand[r] > 0 and rises.counts[r] > 0:
            highest = max(highest, _probability(_sight(rises, outlook, r), lifetime_us))
    return min(highest, 1.0 - LEAST)


@compiled
def longest_lifetime(rises: Rises, outlook: Outlook, probability: float) -> int:
    """Return the shortest lifetime whose estimate exceeds the probability, up to some thousand years; 0 if none is
    within it.
    """
    if outlook.slots <= 0 or probability < LEAST:
        return _LONGEST_US if probability >= 1.0 - LEAST else 0
    shortest = _LONGEST_US
    for r in range(outlook.demand.shape[0]):
        if outlook.demand[r] > 0 and rises.counts[r] > 0 and probability < 1.0 - LEAST:
            sight = _sight(rises, outlook, r)
            low, high = 0, shortest
            while low < high:
                middle = (low + high) // 2
                if _probability(sight, middle) > probability:
                    high = middle
                else:
                    low = middle + 1
            shortest = low
    return shortest


@compiled
def window_count(seen_us: int, lifetime_us: float) -> float:
    """Return how many windows of this lifetime, but at least of six hours, the history holds."""
    return seen_us / max(lifetime_us, SHORTEST_WINDOW_US)


@inner
def _score_of_room(outlook: Outlook, r: int) -> float:
    """Return the part of the score that does not depend on the lifetime."""
    free, capacity = max(outlook.free[r], 0), max(outlook.capacity[r], 1)
    below = (outlook.free[r] - outlook.excess[r]) / capacity
    # What a core of this flavor comes with, in this resource; for cores it is one.
    unit = outlook.demand[r] / outlook.demand[0] if outlook.demand[0] > 0 else outlook.demand[r]
    score = INTERCEPT - SCARCITY * log((free + unit) / capacity)
    score -= BELOW_PEAK * min(max(below, -0.3), 0.5)
    score += FLAVOR_SIZE * outlook.demand[r] / max(outlook.size[r], 1)
    score -= HALF_NODES * log(1.0 + max(outlook.halves[r], 0))
    return float(score + FEW_SLOTS / max(outlook.slots, 1))


@inner
def _cloud_score(rises: Rises, r: int) -> float:
    """Return the part of the score that is the same for every start: the cloud's level, and its present activity."""
    return float(rises.level + ACTIVITY * rises.activity[r])


@inner
def _sight(rises: Rises, outlook: Outlook, r: int) -> _Sight:
    """Return what is seen of a resource. A table without a spread has the level in the score, as it was then."""
    has_heights, passed = rises.heights.shape[1] > 0, _passed_rises(rises, outlook, r)
    reached, score = _shrunk(passed, rises.seen_us), _score_of_room(outlook, r)
    if rises.spreads[r] <= 0.0:
        return _Sight(passed, reached, score + rises.level, -1.0, 0.0, rises.seen_us, has_heights)
    beyond = max(outlook.free[r] - outlook.excess[r], 0)
    record = exp(-beyond / (RECORD_SPREADS * rises.spreads[r]))
    repeated = _repeated(rises, outlook, r) if has_heights else passed
    return _Sight(repeated, reached, score, record, _cloud_score(rises, r), rises.seen_us, has_heights)


@inner
def _probability(sight: _Sight, lifetime_us: int) -> float:
    """Return the estimate from what is seen."""
    lifetime = float(max(lifetime_us, _LEAST_LIFETIME_US))
    rise, unseen = _between(sight.reached, lifetime), lifetime / (sight.seen_us + lifetime)
    score = sight.score + RISE * log(rise / (1.0 - rise))
    score += UNSEEN * log(unseen)
    score += LENGTH * log((lifetime_us + _LENGTH_SHIFT_US) / _HOUR_US)
    found = 1.0 / (1.0 + exp(-score))
    if sight.record < 0.0:
        return found
    mean = sqrt(found * max(_chance(sight, _between(sight.repeated, lifetime), sight.record * unseen), _LEAST_CHANCE))
    # Clipped first, so that the odds are those of a probability; every step keeps the order of its values.
    mean = min(max(mean, LEAST * LEAST), 1.0 - LEAST * LEAST)
    odds_against = (1.0 - mean) / mean
    if sight.has_heights and odds_against > _SMALL_AGAINST:
        odds_against *= (odds_against / _SMALL_AGAINST) ** (STRETCH - 1.0)
    return 1.0 / (1.0 + odds_against * exp(-sight.level))


@inlined
def _chance(sight: _Sight, repeated: float, record: float) -> float:
    """Return the chance of a rise or a record. A table without heights has the larger of the two, as it was then."""
    return 1.0 - (1.0 - repeated) * (1.0 - record) if sight.has_heights else max(repeated, record)


@inner
def _passed_rises(rises: Rises, outlook: Outlook, r: int) -> Floats:
    """Return G at the end of each interval (K + 1, first at 0). No value is below an earlier one.

    In an interval the room is larger by what was released before it.
    """
    free, passed = max(outlook.free[r], 0), np.zeros(INTERVAL_COUNT + 1)
    for k in range(INTERVAL_COUNT):
        room = free + outlook.released[r, k]
        passed[k + 1] = max(passed[k], _read(rises.shares[r, :, k], rises.rooms[r], rises.counts[r], room))
    return passed


@inner
def _repeated(rises: Rises, outlook: Outlook, r: int) -> Floats:
    """Return the share of past moments after which the load took the room by the end of each interval (K + 1).

    It rises from the present one by more than the room, or comes to lie above the height that leaves none. In each
    interval they count by its nearness. No value is below an earlier one.
    """
    free, repeated = max(outlook.free[r], 0), np.zeros(INTERVAL_COUNT + 1)
    for k in range(INTERVAL_COUNT):
        room, near = free + outlook.released[r, k], NEARNESS[k]
        risen = _read(rises.shares[r, :, k], rises.rooms[r], rises.counts[r], room)
        above = _read(rises.heights[r, :, k], rises.rooms[r], rises.counts[r], outlook.load[r] + room)
        repeated[k + 1] = max(repeated[k], near * risen + (1.0 - near) * above)
    return repeated


@inner
def _shrunk(passed: Floats, seen_us: int) -> Floats:
    """Return G (K + 1) shrunk by the windows that it rests on.

    No value is below an earlier one, although a longer lifetime has fewer windows.
    """
    reached = np.empty(INTERVAL_COUNT + 1)
    reached[0] = PRIOR_SHARE / (window_count(seen_us, 0) + 1.0)
    for k in range(INTERVAL_COUNT):
        windows = window_count(seen_us, BIN_US << k)
        reached[k + 1] = max(reached[k], (windows * passed[k + 1] + PRIOR_SHARE) / (windows + 1.0))
    return reached


@inner
def _between(reached: Floats, lifetime: float) -> float:
    """Return the value at a lifetime, on the line between the ends of the intervals around it."""
    before_us = 0.0
    for k in range(INTERVAL_COUNT):
        end_us = float(BIN_US << k)
        if lifetime <= end_us:
            return float(reached[k] + (reached[k + 1] - reached[k]) * (lifetime - before_us) / (end_us - before_us))
        before_us = end_us
    return float(reached[INTERVAL_COUNT])


@inner
def _read(shares: Floats, rooms: np.ndarray, count: int, room: int) -> float:
    """Return the share at a room, on the line between the two published rooms around it."""
    at = np.searchsorted(rooms[:count], room, side="right")
    if at >= count:
        return float(shares[count - 1])
    low, high = rooms[at - 1], rooms[at]
    return float(shares[at - 1] + (shares[at] - shares[at - 1]) * (room - low) / (high - low))
