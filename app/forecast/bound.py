"""An upper bound on a risk that was estimated from little evidence.

Samples that start close together see the same future, so they are one piece of evidence, not a thousand. Only samples
a lifetime apart count (their *windows*), because their futures do not overlap.
"""

from __future__ import annotations

from math import log

import numpy as np

from app.engine.cluster import Ints
from app.engine.compiled import compiled, inner

_MINUTE_US = 60_000_000
SCALES_US = tuple(_MINUTE_US * 4**step for step in range(10))
"""The lifetimes at which windows are counted, from a minute to half a year. Others use the next longer one."""
_HALVINGS = 40


@compiled
def count_windows(times_us: Ints, apart_us: int) -> int:
    """Return the largest number of the rising times that can be chosen with at least `apart_us` between any two."""
    count, last_us = 0, 0
    for i in range(times_us.shape[0]):
        if count == 0 or times_us[i] - last_us >= apart_us:
            count += 1
            last_us = times_us[i]
    return count


def windows_by_scale(times_us: Ints) -> tuple[int, ...]:
    """Return the number of windows at each of `SCALES_US` for injections at these times, given in any order."""
    ordered = np.sort(times_us)
    return tuple(int(count_windows(ordered, scale_us)) for scale_us in SCALES_US)


@compiled
def upper_bound(share: float, count: float, confidence: float) -> float:
    """Return the smallest risk q for which a share this low in `count` independent trials has a chance below 1 -
    confidence.

    Computed by Chernoff's bound, which needs no whole number of evictions: count * KL(share || q) = log(1 / (1 -
    confidence)). It is exact for a share of 0 and never too low.
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


@inner
def _divergence(share: float, risk: float) -> float:
    """Return the Kullback-Leibler divergence of trials with chance `share` from trials with `risk`, both below 1."""
    found = (1 - share) * log((1 - share) / (1 - risk)) if risk < 1.0 else np.inf
    return found + share * log(share / risk) if share > 0.0 else found
