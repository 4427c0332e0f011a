"""Predicts how long writing a checkpoint takes, and decides from it if one fits into the notice of an eviction.

A checkpoint costs a fixed part and a part for each byte of memory. Both are fitted to the checkpoints that were written
before, the newest counting most, by least squares of the *relative* errors: so small jobs are foretold as well as large
ones. Those of another machine stand in until there are real ones.

The cost is not a line: what fits into the caches of the machine is written faster for each byte. So the line is
corrected by what the checkpoints of about as much memory took, as a ratio (kernel regression of Nadaraya and Watson, by
the logarithm of the memory). How far a measurement is foretold wrongly is told by all others without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp, expm1, log, log2, sqrt
from typing import NamedTuple

MOST_MEASURED = 50
"""So many of the newest measurements are looked at."""
_FADE = 0.8
"""A measurement counts that much of the one after it; for the correction, of the one after it of as much memory."""
_ASSUMED = ((10e6, 0.55), (100e6, 0.9), (1e9, 8.4))
"""Bytes and seconds, in place of measurements: CRIU 4.1.1 on two busy cores, `benchmarks.clusters prediction`."""
_ASSUMED_WEIGHT, _ASSUMED_SPREAD = 0.05, 0.25
_GRID = [size / 2 for size in range(40, 90)]
"""Memories as logarithms to the base of 2, from a mebibyte on. Twice the memory is one away, which is the standard
deviation of the kernel.
"""
_LINE_WEIGHT = 0.5
"""The line counts as much as half a measurement of just as much memory."""


class Measured(NamedTuple):
    """A checkpoint that was written: the memory of its processes, and the seconds until it was published."""

    memory_bytes: float
    write_s: float


class _Wrong(NamedTuple):
    """By how much the line is wrong for a measurement, as a logarithm. size: its memory as a logarithm."""

    size: float
    ratio: float


class _Fitted(NamedTuple):
    """The logarithms of the seconds for the memories of the grid, rising, and what they were fitted to.

    errors: by how much each measurement is foretold wrongly by the others, squared, as a share.
    """

    wrong: Sequence[_Wrong]
    errors: Sequence[float]
    curve: Sequence[float]

    def at(self, size: float) -> float:
        """Return the logarithm of the seconds for a memory. Beyond the grid time grows as memory does."""
        place = max((size - _GRID[0]) / (_GRID[1] - _GRID[0]), 0.0)
        number = min(int(place), len(_GRID) - 1)
        if number == len(_GRID) - 1:
            return self.curve[-1] + (size - _GRID[-1]) * log(2.0)
        return self.curve[number] + (place - number) * (self.curve[number + 1] - self.curve[number])


class Predicted(NamedTuple):
    """A length of time that is foretold, with its standard deviation; s."""

    mean_s: float
    sigma_s: float


def predict(measured: Iterable[Measured], memory_bytes: float) -> Predicted:
    """Return how long a checkpoint of so many bytes is going to take. measured: the oldest first."""
    found = _fitted(tuple(one for one in [*measured][: -MOST_MEASURED - 1 : -1] if one.write_s > 0.0))
    size = _size(memory_bytes)
    mean_s = exp(found.at(size))
    near, weight = _nearness(found.wrong, size), 3 * _ASSUMED_WEIGHT
    errors = sum(much * error for much, error in zip(near, found.errors, strict=True))
    spread = sqrt((errors + weight * _ASSUMED_SPREAD**2) / (sum(near) + weight))
    return Predicted(mean_s, mean_s * spread)


@lru_cache(maxsize=4)
def _fitted(newest: Sequence[Measured]) -> _Fitted:
    """Return the curve through measurements, the newest first."""
    weighted = [(_ASSUMED_WEIGHT, Measured(*one)) for one in _ASSUMED]
    weighted += [(_FADE**age, one) for age, one in enumerate(newest)]
    fixed_s, each_s = _line(weighted)
    wrong = [
        _Wrong(_size(one.memory_bytes), log(one.write_s / (fixed_s + each_s * one.memory_bytes))) for one in newest
    ]
    corrected = [log(fixed_s + each_s * 2.0**size) + _correction(wrong, size) for size in _GRID]
    told = [_correction([*wrong[:number], *wrong[number + 1 :]], one.size) for number, one in enumerate(wrong)]
    errors = [expm1(one.ratio - by_others) ** 2 for one, by_others in zip(wrong, told, strict=True)]
    return _Fitted(wrong, errors, [*accumulate(corrected, max)])


def _size(memory_bytes: float) -> float:
    return log2(max(memory_bytes, 1.0))


def _nearness(wrong: Sequence[_Wrong], at: float) -> list[float]:
    """Return how much each measurement counts for a size: the newest first, and each less for those of its size."""
    found, before = [], 0.0
    for one in wrong:
        alike = exp(-0.5 * (one.size - at) ** 2)
        found.append(alike * _FADE**before)
        before += alike
    return found


def _correction(wrong: Sequence[_Wrong], at: float) -> float:
    """Return by how much the line is wrong at a size, as a logarithm."""
    near = _nearness(wrong, at)
    return sum(weight * one.ratio for weight, one in zip(near, wrong, strict=True)) / (sum(near) + _LINE_WEIGHT)


def _line(weighted: list[tuple[float, Measured]]) -> tuple[float, float]:
    """Return the fixed seconds and the seconds for each byte of the best line; neither is below nothing."""
    rows = [(weight / one.write_s**2, one.memory_bytes, one.write_s) for weight, one in weighted]
    total = sum(weight for weight, _, _ in rows)
    x = sum(weight * memory for weight, memory, _ in rows)
    y = sum(weight * seconds for weight, _, seconds in rows)
    xx = sum(weight * memory**2 for weight, memory, _ in rows)
    xy = sum(weight * memory * seconds for weight, memory, seconds in rows)
    each_s = max((total * xy - x * y) / (total * xx - x * x), 0.0)
    return max((y - each_s * x) / total, 0.01), each_s


def fits(predicted: Predicted, left_s: float, margin_s: float) -> bool:
    """Return True if a checkpoint is written in time, as good as surely: three standard deviations are counted in."""
    return predicted.mean_s + 3.0 * predicted.sigma_s <= left_s - margin_s
