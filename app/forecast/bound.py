"""An upper bound on a risk that was estimated from little evidence.

Samples that start close together see the same future: they are one piece of evidence, not a thousand. What counts is
how many of them are a lifetime apart (their *windows*), for those see futures that do not overlap.
"""

from __future__ import annotations

from math import log

import numpy as np

from app.engine.cluster import Ints
from app.engine.compiled import compiled

_MINUTE_US = 60_000_000
SCALES_US = tuple(_MINUTE_US * 4**step for step in range(10))
"""The lifetimes at which windows are counted, a minute to half a year; one between two is read at the longer."""
_HALVINGS = 40


@compiled
def count_windows(times_us: Ints, apart_us: int) -> int:
    """How many of the rising times can be chosen so that any two are at least so far apart."""
    count, last_us = 0, 0
    for i in range(times_us.shape[0]):
        if count == 0 or times_us[i] - last_us >= apart_us:
            count += 1
            last_us = times_us[i]
    return count


def windows_by_scale(times_us: Ints) -> tuple[int, ...]:
    """The number of windows at each of `SCALES_US`, of injections at these times in any order."""
    ordered = np.sort(times_us)
    return tuple(int(count_windows(ordered, scale_us)) for scale_us in SCALES_US)


def upper_bound(share: float, count: int, confidence: float) -> float:
    """The smallest risk q at which a share this low among `count` independent trials had a chance below 1 - confidence.

    By Chernoff's bound, which needs no whole number of evictions: count * KL(share || q) = log(1 / (1 - confidence)).
    It is exact for a share of 0, and never too low.
    """
    if share >= 1.0:
        return 1.0
    needed = log(1 / (1 - confidence)) / count
    low, high = share, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _divergence(share, middle) < needed:
            low = middle
        else:
            high = middle
    return high


def _divergence(share: float, risk: float) -> float:
    """Kullback-Leibler, of a trial with chance `share` from one with chance `risk`; both below 1."""
    found = (1 - share) * log((1 - share) / (1 - risk)) if risk < 1.0 else float("inf")
    return found + share * log(share / risk) if share > 0.0 else found
