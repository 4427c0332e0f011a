"""Quantile tables: by flavor and available slots, the distribution of the time to eviction, read at any probability.

F(t) is the share evicted by t in a bucket (docs/forecast.md). The lifetime at probability p is q(p) = inf{t: F(t) > p}.
Nothing is certified beyond the bucket's longest observed time, where F counts as 1. Quantiles of a bucket without
samples are interpolated linearly between the nearest ones with samples. Zero slots have lifetime zero. More slots than
ever seen take the quantiles of the largest bucket.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from app.domain.errors import LogNewer
from app.engine.cluster import Ints
from app.engine.outlook import Outlook
from app.forecast.bound import upper_bound
from app.forecast.foreseen import Foreseen
from app.forecast.rise import Rises
from app.forecast.survival import Bucket, Floats

_FORMAT = b"tenure quantile table 2\n"
_WITH_RISES = b"tenure quantile table 3\n"
_WITHOUT_WINDOWS = b"tenure quantile table 1\n"
_CACHED = 1024
_POINTS = 4
"""The index of the number of points in a bucket's counts."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One flavor's buckets by rising slots, without the bucket of zero slots."""

    buckets: tuple[Bucket, ...]
    _seen: list[int]
    _lifetimes: dict[float, list[int]] = field(default_factory=dict, init=False, repr=False)
    _steps: dict[int, tuple[Floats, Ints]] = field(default_factory=dict, init=False, repr=False)

    def lifetime_us(self, slots: int, probability: float) -> int | None:
        """Return the lifetime guaranteed at an eviction probability; None without any evidence."""
        if not self.buckets:
            return None
        lifetimes = self._lifetimes.get(probability) or self._read_lifetimes(probability)
        at = bisect_left(self._seen, slots)
        if at == len(self._seen):
            return lifetimes[-1]
        if self._seen[at] == slots:
            return lifetimes[at]
        return _between(self._seen[at - 1], self._seen[at], slots, lifetimes[at - 1], lifetimes[at])

    def probability(self, slots: int, lifetime_us: int) -> float | None:
        """Return the lowest probability whose lifetime exceeds this one, else 1.0; None without any evidence."""
        if not self.buckets:
            return None
        probabilities, lifetimes = self._steps.get(slots) or self._read_steps(slots)
        at = int(np.searchsorted(lifetimes, lifetime_us, side="right"))
        return float(probabilities[at]) if at < len(lifetimes) else 1.0

    def accepted_count(self, slots: int, lifetime_us: int, probability: float) -> int:
        """Return how many starts of a lifetime are quoted enough one after the other, each of which takes a slot.

        Between two buckets the quotes rise or fall evenly, so the first slots that are not enough lie after the last
        bucket below them that is not, at a place that can be computed.
        """
        if slots <= 0 or (self.lifetime_us(slots, probability) or 0) <= lifetime_us:
            return 0
        lifetimes = self._lifetimes.get(probability) or self._read_lifetimes(probability)
        below = np.array(lifetimes[: bisect_left(self._seen, slots)])
        at = int(np.flatnonzero(below <= lifetime_us)[-1])
        low_slots, low_us = self._seen[at], lifetimes[at]
        width, rise_us = self._seen[at + 1] - low_slots, lifetimes[at + 1] - low_us
        return slots - low_slots - ((lifetime_us - low_us + 1) * width - 1) // rise_us

    def window_count(self, slots: int, lifetime_us: int) -> int:
        """Return the number of independent pieces of evidence for a lifetime at a number of slots."""
        return min(bucket.window_count(lifetime_us) for bucket in self._around(slots))

    def _read_lifetimes(self, probability: float) -> list[int]:
        """Return the lifetimes at a probability, in the order of `_seen`, and cache them."""
        point = np.array([probability])
        lifetimes = [0, *(int(bucket.lifetimes_us(point)[0]) for bucket in self.buckets)]
        if len(self._lifetimes) >= _CACHED:
            self._lifetimes.clear()
        self._lifetimes[probability] = lifetimes
        return lifetimes

    def _read_steps(self, slots: int) -> tuple[Floats, Ints]:
        """Return the probabilities at which the lifetime rises, and the lifetime from each on, and cache them."""
        around = self._around(slots)
        probabilities = np.unique(np.concatenate([[0.0], *(bucket.levels for bucket in around)]))
        quantiles = [bucket.lifetimes_us(probabilities) for bucket in around]
        steps = probabilities, _interpolated(around, slots, quantiles)
        if len(self._steps) >= _CACHED:
            self._steps.clear()
        self._steps[slots] = steps
        return steps

    def _around(self, slots: int) -> list[Bucket]:
        """Return the bucket for a number of slots, or the two that it lies between."""
        at = bisect_left(self._seen, slots)
        found = [_FULL, *self.buckets][max(at - 1, 0) : at + 1]
        return found[-1:] if found[-1].slots <= slots else found


_FULL = Bucket(0, 0, 0, 0, np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, slots=True)
class QuantileTable:
    """The table of one epoch. `epoch_us` is the end of its history, `seq` its last position in the log.

    `rises` is what the calibrated forecast needs of the history; None if it was not asked for.
    """

    epoch: int
    epoch_us: int
    seq: int
    curves: Mapping[str, Curve]
    rises: Rises | None = None

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors for which the table was computed."""
        return tuple(self.curves)

    def curve(self, flavor: str) -> Curve:
        """Return all that the table holds for a flavor. Raise KeyError if it was not computed for it."""
        return self.curves[flavor]

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """Return the lifetime guaranteed at an eviction probability; None without evidence for the flavor."""
        curve = self.curves.get(flavor)
        return None if curve is None else curve.lifetime_us(slots, probability)

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """Return the smallest probability whose lifetime is longer, else 1.0; None without evidence for the flavor."""
        curve = self.curves.get(flavor)
        return None if curve is None else curve.probability(slots, lifetime_us)

    def accepted_count(self, flavor: str, slots: int, lifetime_us: int, probability: float) -> int:
        """Return how many starts are quoted enough one after the other, each of which takes a slot."""
        curve = self.curves.get(flavor)
        return 0 if curve is None else curve.accepted_count(slots, lifetime_us, probability)

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """Return an upper bound of a lifetime's eviction probability at this confidence; None if nothing is known."""
        curve = self.curves.get(flavor)
        estimate = None if curve is None else curve.probability(slots, lifetime_us)
        if curve is None or estimate is None or not (count := curve.window_count(slots, lifetime_us)):
            return None
        return upper_bound(estimate, count, confidence)

    def seen_from(self, outlooks: Mapping[str, Outlook]) -> Foreseen:
        """Return the calibrated forecast of starts with these outlooks, by flavor."""
        return Foreseen(self.epoch, self.epoch_us, self.seq, self.rises, outlooks)

    def to_bytes(self) -> bytes:
        """Return the table for storage: a line naming the format, then compressed a line of counts and the points.

        Rises, if there are any, precede them, in a newer format.
        """
        buckets = [bucket for curve in self.curves.values() for bucket in curve.buckets]
        counts = {flavor: [_counts(bucket) for bucket in curve.buckets] for flavor, curve in self.curves.items()}
        times = b"".join(bucket.times_us.astype("<i8").tobytes() for bucket in buckets)
        levels = b"".join(bucket.levels.astype("<f8").tobytes() for bucket in buckets)
        rest = json.dumps(counts).encode() + b"\n" + times + levels
        if self.rises is None:
            return _FORMAT + zlib.compress(rest)
        return _WITH_RISES + zlib.compress(self.rises.to_bytes() + rest)

    @classmethod
    def from_bytes(cls, data: bytes, *, epoch: int, epoch_us: int, seq: int) -> QuantileTable:
        """Return the table that `to_bytes` wrote. Raise LogNewer if it is in a newer format."""
        if not data.startswith((_WITH_RISES, _FORMAT, _WITHOUT_WINDOWS)):
            raise LogNewer(
                f"a newer version of Tenure computed the quantile table of epoch {epoch}: run that version here too"
            )
        rises, rest = None, zlib.decompress(data[len(_FORMAT) :])
        if data.startswith(_WITH_RISES):
            rises, rest = Rises.from_bytes(rest)
        line, points = rest.split(b"\n", 1)
        half = len(points) // 2
        times, levels = np.frombuffer(points[:half], "<i8"), np.frombuffer(points[half:], "<f8")
        counts = json.loads(line)
        ends = np.cumsum([row[_POINTS] for rows in counts.values() for row in rows])[:-1]
        columns = zip(np.split(times, ends), np.split(levels, ends), strict=True)
        # The rows of the flavors take the points one after another, in the order in which they were written.
        curves = {flavor: make_curve([_bucket(row, next(columns)) for row in rows]) for flavor, rows in counts.items()}
        return cls(epoch, epoch_us, seq, curves, rises)


def make_curve(buckets: list[Bucket]) -> Curve:
    """Return the curve of buckets given by rising slots, without one of zero slots."""
    return Curve(tuple(buckets), [0, *(bucket.slots for bucket in buckets)])


def _counts(bucket: Bucket) -> list[int]:
    return [
        bucket.slots,
        bucket.sample_count,
        bucket.evicted_count,
        bucket.longest_us,
        len(bucket.levels),
        *bucket.windows,
    ]


def _bucket(counts: list[int], points: tuple[Ints, Floats]) -> Bucket:
    slots, sample_count, evicted_count, longest_us, _, *windows = counts
    found = Bucket(slots, sample_count, evicted_count, longest_us, *points)
    return replace(found, windows=tuple(windows)) if windows else found


def _interpolated(around: list[Bucket], slots: int, quantiles: list[Ints]) -> Ints:
    """Return the quantiles at `slots`, interpolated one by one between those of the one or two buckets around it."""
    if len(around) == 1:
        return quantiles[0]
    low, high = around
    pairs = zip(quantiles[0].tolist(), quantiles[1].tolist(), strict=True)
    return np.array([_between(low.slots, high.slots, slots, *pair) for pair in pairs], np.int64)


def _between(low_slots: int, high_slots: int, slots: int, low_us: int, high_us: int) -> int:
    """Return the value on the line between two quantiles, rounded down.

    It is computed in whole numbers, so that reading and its inverse agree exactly.
    """
    return low_us + (high_us - low_us) * (slots - low_slots) // (high_slots - low_slots)
