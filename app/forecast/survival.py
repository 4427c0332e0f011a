"""Kaplan-Meier estimates for each bucket: the share of instances evicted by a time, with censored samples.

Counting censored samples as evictions would make quotes far too low (docs/forecast.md).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import Bools, Ints
from app.engine.compiled import compiled
from app.forecast.bound import SCALES_US, windows_by_scale
from app.forecast.replay import Samples

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bucket:
    """The evidence at one number of available slots.

    times_us (P): the distinct times of evictions, rising; levels (P): the share evicted by then; longest_us: the
    longest time observed, whether it ended in an eviction or not; windows: see forecast.bound.
    """

    slots: int
    sample_count: int
    evicted_count: int
    longest_us: int
    times_us: Ints
    levels: Floats
    windows: tuple[int, ...] = (0,) * len(SCALES_US)

    def window_count(self, lifetime_us: int) -> int:
        """Return the number of independent pieces of evidence for a lifetime."""
        at = bisect_left(SCALES_US, lifetime_us)
        return self.windows[at] if at < len(SCALES_US) else min(self.windows[-1], 1)

    def lifetime_us(self, probability: float) -> int:
        """Return the lifetime at a probability like `lifetimes_us`."""
        at = int(self.levels.searchsorted(probability, side="right"))
        return int(self.times_us[at]) if at < len(self.times_us) else self.longest_us

    def probability(self, lifetime_us: int) -> float:
        """Return the lowest probability whose lifetime is longer than this one, else 1.0."""
        at = int(self.times_us.searchsorted(lifetime_us, side="right"))
        if at == len(self.times_us) and self.longest_us <= lifetime_us:
            return 1.0
        return float(self.levels[at - 1]) if at else 0.0

    def lifetimes_us(self, probabilities: Floats) -> Ints:
        """Return the lifetime at each probability: inf{t: level(t) > p}, the longest time if there is none."""
        return np.append(self.times_us, self.longest_us)[np.searchsorted(self.levels, probabilities, side="right")]


def estimate_buckets(samples: Samples) -> list[Bucket]:
    """Return the Kaplan-Meier estimates of the time to eviction, by rising slots."""
    order = np.lexsort((samples.lasted_us, samples.slots))
    slots, lasted_us, was_evicted = samples.slots[order], samples.lasted_us[order], samples.was_evicted[order]
    seen, begin = np.unique(slots, return_index=True)
    end = np.append(begin[1:], len(slots))[: len(seen)]
    times_us, levels, points = np.empty(len(slots), np.int64), np.empty(len(slots)), np.empty(len(seen), np.int64)
    _estimate_levels(lasted_us, was_evicted, end, times_us, levels, points)
    evicted = np.append(0, np.cumsum(was_evicted))
    started_us = samples.started_us[order]
    columns = seen, end - begin, evicted[end] - evicted[begin], lasted_us[end - 1], begin, begin + points
    return [
        Bucket(
            slots,
            count,
            evicted_count,
            longest_us,
            times_us[first:last].copy(),
            levels[first:last].copy(),
            windows_by_scale(started_us[first : first + count]),
        )
        for slots, count, evicted_count, longest_us, first, last in zip(*(c.tolist() for c in columns), strict=True)
    ]


@compiled
def _estimate_levels(
    lasted_us: Ints, was_evicted: Bools, end: Ints, times_us: Ints, levels: Floats, points: Ints
) -> None:
    """Fill every bucket's distinct eviction times and levels, from its beginning, and their number in `points`.

    Samples are ordered by bucket (each up to its `end`), then by time. Those censored at the time of an eviction count
    as still at risk then.
    """
    i = 0
    for bucket in range(end.shape[0]):
        begin, survival, points[bucket] = i, 1.0, 0
        while i < end[bucket]:
            now_us, at_risk, evicted = lasted_us[i], end[bucket] - i, 0
            while i < end[bucket] and lasted_us[i] == now_us:
                evicted += was_evicted[i]
                i += 1
            if evicted:
                survival *= 1.0 - evicted / at_risk
                times_us[begin + points[bucket]] = now_us
                levels[begin + points[bucket]] = 1.0 - survival
                points[bucket] += 1
