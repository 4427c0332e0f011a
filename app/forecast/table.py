"""Quantile tables: flavor x available slots -> the distribution of the time to eviction, read at any probability.

The rules (spot-sla-conference, II.B; docs/forecast.md), with F(t) the share evicted by t in a bucket:
the lifetime at probability p is q(p) = inf{t: F(t) > p}. Nothing is certified beyond the bucket's longest observed
time: there F is 1. A bucket never seen lies, quantile by quantile, on the line between the nearest seen ones; zero
slots have lifetime zero; more slots than ever seen have the quantiles of the most free bucket seen.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from app.engine.cluster import Ints
from app.forecast.bound import upper_bound
from app.forecast.survival import Bucket, Floats

_FORMAT = b"tenure quantile table 2\n"
_WITHOUT_WINDOWS = b"tenure quantile table 1\n"
_CACHED = 1024
_POINTS = 4
"""Where a bucket's counts tell the number of its points."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One flavor's buckets, by rising slots; the bucket of zero slots is not among them."""

    buckets: tuple[Bucket, ...]
    _seen: list[int]
    _lifetimes: dict[float, list[int]] = field(default_factory=dict, init=False, repr=False)
    _steps: dict[int, tuple[Floats, Ints]] = field(default_factory=dict, init=False, repr=False)

    def lifetime_us(self, slots: int, probability: float) -> int | None:
        """The lifetime guaranteed at an eviction probability; None where nothing was ever seen."""
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
        """The smallest probability whose lifetime is longer than this one; 1.0 where none is. None as above."""
        if not self.buckets:
            return None
        probabilities, lifetimes = self._steps.get(slots) or self._read_steps(slots)
        at = int(np.searchsorted(lifetimes, lifetime_us, side="right"))
        return float(probabilities[at]) if at < len(lifetimes) else 1.0

    def window_count(self, slots: int, lifetime_us: int) -> int:
        """How many pieces of independent evidence speak for a lifetime at a number of slots."""
        return min(bucket.window_count(lifetime_us) for bucket in self._around(slots))

    def _read_lifetimes(self, probability: float) -> list[int]:
        """The lifetimes at a probability by `_seen`, kept for the next reading."""
        point = np.array([probability])
        lifetimes = [0, *(int(bucket.lifetimes_us(point)[0]) for bucket in self.buckets)]
        if len(self._lifetimes) >= _CACHED:
            self._lifetimes.clear()
        self._lifetimes[probability] = lifetimes
        return lifetimes

    def _read_steps(self, slots: int) -> tuple[Floats, Ints]:
        """The probabilities at which the lifetime rises, with the lifetime from there on; kept likewise."""
        around = self._around(slots)
        probabilities = np.unique(np.concatenate([[0.0], *(bucket.levels for bucket in around)]))
        quantiles = [bucket.lifetimes_us(probabilities) for bucket in around]
        steps = probabilities, _interpolated(around, slots, quantiles)
        if len(self._steps) >= _CACHED:
            self._steps.clear()
        self._steps[slots] = steps
        return steps

    def _around(self, slots: int) -> list[Bucket]:
        """The bucket that speaks for a number of slots, or the two between which it lies."""
        at = bisect_left(self._seen, slots)
        found = [_FULL, *self.buckets][max(at - 1, 0) : at + 1]
        return found[-1:] if found[-1].slots <= slots else found


_FULL = Bucket(0, 0, 0, 0, np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, slots=True)
class QuantileTable:
    """One epoch's table: `epoch_us` is the end of its history, `seq` the log position that it was computed from."""

    epoch: int
    epoch_us: int
    seq: int
    curves: Mapping[str, Curve]

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors that the table was computed for."""
        return tuple(self.curves)

    def curve(self, flavor: str) -> Curve:
        """All that the table knows of a flavor. KeyError where it was not computed for it."""
        return self.curves[flavor]

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """The lifetime guaranteed at an eviction probability; None where there is no evidence on the flavor."""
        curve = self.curves.get(flavor)
        return None if curve is None else curve.lifetime_us(slots, probability)

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """The smallest probability whose lifetime is longer than this one, 1.0 where none is; None as above."""
        curve = self.curves.get(flavor)
        return None if curve is None else curve.probability(slots, lifetime_us)

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """What the eviction probability of a lifetime is below, with this confidence; None where nothing is known."""
        curve = self.curves.get(flavor)
        estimate = None if curve is None else curve.probability(slots, lifetime_us)
        if curve is None or estimate is None or not (count := curve.window_count(slots, lifetime_us)):
            return None
        return upper_bound(estimate, count, confidence)

    def to_bytes(self) -> bytes:
        """The curves, to be stored: a line that names the format, then compressed a line of counts and the points."""
        buckets = [bucket for curve in self.curves.values() for bucket in curve.buckets]
        counts = {flavor: [_counts(bucket) for bucket in curve.buckets] for flavor, curve in self.curves.items()}
        times = b"".join(bucket.times_us.astype("<i8").tobytes() for bucket in buckets)
        levels = b"".join(bucket.levels.astype("<f8").tobytes() for bucket in buckets)
        return _FORMAT + zlib.compress(json.dumps(counts).encode() + b"\n" + times + levels)

    @classmethod
    def from_bytes(cls, data: bytes, *, epoch: int, epoch_us: int, seq: int) -> QuantileTable:
        """The table of `to_bytes`. ValueError where the format is another one."""
        if not data.startswith((_FORMAT, _WITHOUT_WINDOWS)):
            raise ValueError(f"these bytes are no {_FORMAT.decode().strip()!r}")
        line, points = zlib.decompress(data[len(_FORMAT) :]).split(b"\n", 1)
        half = len(points) // 2
        times, levels = np.frombuffer(points[:half], "<i8"), np.frombuffer(points[half:], "<f8")
        counts = json.loads(line)
        ends = np.cumsum([row[_POINTS] for rows in counts.values() for row in rows])[:-1]
        columns = zip(np.split(times, ends), np.split(levels, ends), strict=True)
        # The flavors' rows take the points one after another, as they were written.
        curves = {flavor: make_curve([_bucket(row, next(columns)) for row in rows]) for flavor, rows in counts.items()}
        return cls(epoch, epoch_us, seq, curves)


def make_curve(buckets: list[Bucket]) -> Curve:
    """The curve of buckets that stand by rising slots, none of them of zero slots."""
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
    """The quantiles at `slots`, quantile by quantile, from those of the one or two buckets around."""
    if len(around) == 1:
        return quantiles[0]
    low, high = around
    pairs = zip(quantiles[0].tolist(), quantiles[1].tolist(), strict=True)
    return np.array([_between(low.slots, high.slots, slots, *pair) for pair in pairs], np.int64)


def _between(low_slots: int, high_slots: int, slots: int, low_us: int, high_us: int) -> int:
    """The line between two quantiles, rounded down, in whole numbers so that reading and its inverse agree exactly."""
    return low_us + (high_us - low_us) * (slots - low_slots) // (high_slots - low_slots)
