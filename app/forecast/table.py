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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.domain.errors import LogNewer
from app.engine.cluster import Ints
from app.engine.outlook import Outlook
from app.forecast.bound import SCALES_US, upper_bound
from app.forecast.foreseen import Foreseen
from app.forecast.rise import Rises
from app.forecast.survival import Bucket, Floats

_FORMAT = b"tenure quantile table 2\n"
_WITH_RISES = b"tenure quantile table 3\n"
_WITHOUT_WINDOWS = b"tenure quantile table 1\n"
_POINTS = 4
"""The index of the number of points in a bucket's counts."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One flavor's buckets by rising slots, without the bucket of zero slots.

    A question reads the one or two buckets that it concerns, so questions need no cache that could grow.
    """

    buckets: tuple[Bucket, ...]
    _seen: list[int]

    def lifetime_us(self, slots: int, probability: float) -> int | None:
        """Return the lifetime guaranteed at an eviction probability; None without any evidence."""
        return _lifetime_us(self.around(slots), slots, probability) if self.buckets else None

    def probability(self, slots: int, lifetime_us: int) -> float | None:
        """Return the lowest probability whose lifetime exceeds this one, else 1.0; None without any evidence.

        Between two buckets it lies between their own: below the lower of these both lifetimes are too short, and from
        the higher on both are long enough.
        """
        if not self.buckets:
            return None
        around = self.around(slots)
        first, *_, last = sorted(bucket.probability(lifetime_us) for bucket in (around[0], around[-1]))
        if first == last or _lifetime_us(around, slots, first) > lifetime_us:
            return first

        def is_longer(probability: float) -> bool:
            return _lifetime_us(around, slots, probability) > lifetime_us

        return min(_first_level(bucket, first, last, is_longer) for bucket in around)

    def accepted_count(self, slots: int, lifetime_us: int, probability: float) -> int:
        """Return how many starts of a lifetime are quoted enough one after the other, each of which takes a slot.

        Between two buckets the quotes rise or fall evenly, so the first slots that are not enough lie after the last
        bucket below them that is not, at a place that can be computed.
        """
        if slots <= 0 or (self.lifetime_us(slots, probability) or 0) <= lifetime_us:
            return 0
        at = bisect_left(self._seen, slots) - 1
        while self._at(at).lifetime_us(probability) > lifetime_us:
            at -= 1
        low, high = self._at(at), self._at(at + 1)
        low_us, width = low.lifetime_us(probability), high.slots - low.slots
        rise_us = high.lifetime_us(probability) - low_us
        return slots - low.slots - ((lifetime_us - low_us + 1) * width - 1) // rise_us

    def window_count(self, slots: int, lifetime_us: int) -> int:
        """Return the number of independent pieces of evidence for a lifetime at a number of slots."""
        return min(bucket.window_count(lifetime_us) for bucket in self.around(slots))

    def lifetime_of_windows(self, slots: int, count: int) -> int:
        """Return the longest lifetime with so many windows at a number of slots; 0 if there is none."""
        return max((scale for scale in SCALES_US if self.window_count(slots, scale) >= count), default=0)

    def around(self, slots: int) -> tuple[Bucket, ...]:
        """Return the bucket for a number of slots, or the two that it lies between; zero slots have an empty one."""
        at = bisect_left(self._seen, slots)
        if at == len(self._seen):
            return (self._at(at - 1),)
        high = self._at(at)
        return (self._at(at - 1), high) if 0 < slots < high.slots else (high,)

    def _at(self, index: int) -> Bucket:
        """Return the bucket of the slots at this place of `_seen`."""
        return self.buckets[index - 1] if index else _FULL


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

    def windows(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """Return the windows that the estimate of a lifetime rests on; None without evidence for the flavor."""
        curve = self.curves.get(flavor)
        return float(curve.window_count(slots, lifetime_us)) if curve is not None and curve.buckets else None

    def lifetime_of_windows(self, flavor: str, slots: int, count: int) -> int:
        """Return the longest lifetime whose estimate rests on at least so many windows; 0 if there is none."""
        curve = self.curves.get(flavor)
        return curve.lifetime_of_windows(slots, count) if curve is not None and curve.buckets else 0

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


def _lifetime_us(around: Sequence[Bucket], slots: int, probability: float) -> int:
    """Return the lifetime at a probability, between those of the two buckets around the slots if there are two."""
    if len(around) == 1:
        return around[0].lifetime_us(probability)
    low, high = around
    return _between(low.slots, high.slots, slots, low.lifetime_us(probability), high.lifetime_us(probability))


def _first_level(bucket: Bucket, above: float, upto: float, is_longer: Callable[[float], bool]) -> float:
    """Return the lowest of the bucket's levels within these bounds that `is_longer`, as all that follow are; else 1."""
    begin, end = bucket.levels.searchsorted([above, upto], side="right").tolist()
    at = bisect_left(range(begin, end), 1, key=lambda index: is_longer(float(bucket.levels[index]))) + begin
    return float(bucket.levels[at]) if at < end else 1.0


def _between(low_slots: int, high_slots: int, slots: int, low_us: int, high_us: int) -> int:
    """Return the value on the line between two quantiles, rounded down.

    It is computed in whole numbers, so that reading and its inverse agree exactly.
    """
    return low_us + (high_us - low_us) * (slots - low_slots) // (high_slots - low_slots)
