"""The level of a cloud: one number, added to the logit of the calibrated estimate, that follows the cloud's own past.

The weights of the estimate are those of other clouds. So on a cloud unlike them it may say too much or too little
throughout. Past starts with a known end tell by how much. Cases are counted in bins of what the estimate said (its
logit) and by stratum of lifetime, so learning takes the same time and memory however many there are.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from app.domain.strata import BEGINS_US, STRATA
from app.engine.cluster import Ints
from app.engine.compiled import compiled
from app.forecast.calibrated import LEAST, SHORTEST_WINDOW_US
from app.forecast.survival import Floats

MEAN = 0.0
DEVIATION = 0.3
"""Mean and deviation of the level among clouds, before anything is known of this one."""
BIN_WIDTH = 1 / 16
_MOST_LOGIT = log((1 - LEAST) / LEAST)
BIN_COUNT = round(2 * _MOST_LOGIT / BIN_WIDTH) + 1
_HIGHEST = 32.0
_HALVINGS = 48
_SCALE = 1 << 62
"""Windows of a microsecond are counted in whole parts of this, so that the order of cases does not matter."""


class EndCounts(NamedTuple):
    """Starts and evicted ones (S, BIN_COUNT), by stratum and bin; rates (S): the sum of 1 / lifetime, in _SCALE."""

    known: Ints
    evicted: Ints
    rates: Ints


class Cases:
    """EndCounts past starts by what was said of them, without the level, and by what became of them."""

    def __init__(self) -> None:
        known, evicted = np.zeros((2, len(STRATA), BIN_COUNT), np.int64)
        self.counts = EndCounts(known, evicted, np.zeros(len(STRATA), np.int64))

    def evidence(self, seen_us: int) -> Floats:
        """Return starts, those of them evicted, and windows in the history (S, 3) of each stratum.

        The windows are those of the mean start: the length of the history in lifetimes, but of six hours at least.
        """
        found = np.zeros((len(STRATA), 3))
        found[:, 0], found[:, 1] = self.counts.known.sum(axis=1), self.counts.evicted.sum(axis=1)
        for stratum in np.flatnonzero(found[:, 0]).tolist():
            found[stratum, 2] = seen_us * int(self.counts.rates[stratum]) / _SCALE / found[stratum, 0]
        return found

    def level(self, seen_us: int) -> float:
        """Return the level that a history of this length teaches.

        The starts of a stratum weigh together as much as its windows, because those close together see one future.
        """
        evidence = self.evidence(seen_us)
        weights = np.minimum(evidence[:, 2] / np.maximum(evidence[:, 0], 1), 1.0)
        return float(fitted(self.counts.known, self.counts.evicted, weights))


@compiled
def count_case(counts: EndCounts, said: float, lifetime_us: int, evicted: int) -> None:
    """Add a start of this lifetime of which the probability `said` was estimated, and 1 if it was evicted within it."""
    stratum = stratum_index(lifetime_us)
    at = round((log(said / (1.0 - said)) + _MOST_LOGIT) / BIN_WIDTH)
    counts.known[stratum, at] += 1
    counts.evicted[stratum, at] += evicted
    counts.rates[stratum] += _SCALE // max(lifetime_us, SHORTEST_WINDOW_US)


@compiled
def stratum_index(lifetime_us: int) -> int:
    """Return the position in STRATA of a lifetime's stratum."""
    found = 0
    for at in range(len(BEGINS_US)):
        if lifetime_us >= BEGINS_US[at]:
            found = at
    return found


@compiled
def fitted(known: Ints, evicted: Ints, weights: Floats) -> float:
    """Return the most likely level: of starts and evicted ones (S, bins), with the weight of a start (S).

    The slope of the log-likelihood falls with the level, so its zero is found by halving.
    """
    low, high = -_HIGHEST, _HIGHEST
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        slope = (MEAN - level) / DEVIATION**2
        for at in range(known.shape[1]):
            probability = 1.0 / (1.0 + np.exp(_MOST_LOGIT - at * BIN_WIDTH - level))
            for stratum in range(known.shape[0]):
                slope += weights[stratum] * (evicted[stratum, at] - known[stratum, at] * probability)
        if slope == 0.0:
            return level
        low, high = (level, high) if slope > 0 else (low, level)
    return (low + high) / 2
