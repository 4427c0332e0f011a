"""Predicts how long writing a checkpoint takes, and decides from it if one fits into the notice of an eviction.

A checkpoint costs a fixed part and a part for each byte of memory. Both are fitted to the checkpoints that were written
before, the newest counting most, by least squares of the *relative* errors: so small jobs are foretold as well as large
ones. Those of another machine stand in until there are real ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

MOST_MEASURED = 50
"""So many of the newest measurements are looked at."""
_FADE = 0.8
"""A measurement counts that much of the one after it."""
_ASSUMED = ((10e6, 0.55), (100e6, 0.9), (1e9, 8.4))
"""Bytes and seconds, in place of measurements: CRIU 4.1.1 on two busy cores, `benchmarks.clusters prediction`."""
_ASSUMED_WEIGHT, _ASSUMED_SPREAD = 0.05, 0.25


class Measured(NamedTuple):
    """A checkpoint that was written: the memory of its processes, and the seconds until it was published."""

    memory_bytes: float
    write_s: float


class Predicted(NamedTuple):
    """A length of time that is foretold, with its standard deviation; s."""

    mean_s: float
    sigma_s: float


def predict(measured: Iterable[Measured], memory_bytes: float) -> Predicted:
    """Return how long a checkpoint of so many bytes is going to take. measured: the oldest first."""
    newest = [*measured][-MOST_MEASURED:]
    weighted = [(_ASSUMED_WEIGHT, Measured(*one)) for one in _ASSUMED]
    weighted += [(_FADE**age, one) for age, one in enumerate(reversed(newest)) if one.write_s > 0.0]
    fixed_s, each_s = _line(weighted)
    mean_s = fixed_s + each_s * memory_bytes
    errors = [
        (weight, (one.write_s / (fixed_s + each_s * one.memory_bytes) - 1.0) ** 2)
        for weight, one in weighted[len(_ASSUMED) :]
    ]
    errors += [(3 * _ASSUMED_WEIGHT, _ASSUMED_SPREAD**2)]
    spread = sqrt(sum(weight * error for weight, error in errors) / sum(weight for weight, _ in errors))
    return Predicted(mean_s, mean_s * spread)


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
