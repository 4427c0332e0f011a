"""Predicts how long writing a checkpoint takes, and decides from it if one fits into the notice of an eviction.

A checkpoint costs a fixed part and a part for each byte of memory. Both are fitted to the checkpoints that were written
before, the newest counting most, by least squares of the *relative* errors: so small jobs are foretold as well as large
ones. Those of another machine stand in until there are real ones.

The cost is not a line: what fits into the caches of the machine is written faster for each byte. So the line is
corrected by what the checkpoints of about as much memory took, as a ratio (kernel regression of Nadaraya and Watson, by
the logarithm of the memory). How far a measurement is foretold wrongly is told by all others without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_ByMeasured = NDArray[np.float64]

MOST_MEASURED = 50
"""So many of the newest measurements are looked at."""
_FADE = 0.8
"""A measurement counts that much of the one after it; for the correction, of the one after it of as much memory."""
_ASSUMED = ((10e6, 0.55), (100e6, 0.9), (1e9, 8.4))
"""Bytes and seconds, in place of measurements: CRIU 4.1.1 on two busy cores, `benchmarks.clusters prediction`."""
_ASSUMED_WEIGHT, _ASSUMED_SPREAD = 0.05, 0.25
_GRID = np.arange(20.0, 44.25, 0.25)
"""Logarithms to the base of 2 of the memories for which the correction is computed. Twice the memory is one away, which
is the standard deviation of the kernel. Between them the time never falls, as far as they go and beyond.
"""
_LINE_WEIGHT = 0.5
"""The line counts as much as half a measurement of just as much memory."""


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
    newest = [one for one in [*measured][: -MOST_MEASURED - 1 : -1] if one.write_s > 0.0]
    weighted = [(_ASSUMED_WEIGHT, Measured(*one)) for one in _ASSUMED]
    weighted += [(_FADE**age, one) for age, one in enumerate(newest)]
    fixed_s, each_s = _line(weighted)
    memory = np.log2([max(one.memory_bytes, 1.0) for one in newest])
    ratios = np.log([one.write_s / (fixed_s + each_s * one.memory_bytes) for one in newest])
    curve = np.maximum.accumulate(np.log(fixed_s + each_s * 2.0**_GRID) + _correction(memory, ratios))
    beyond = max((fixed_s + each_s * memory_bytes) / (fixed_s + each_s * 2.0 ** _GRID[-1]), 1.0)
    mean_s = exp(float(np.interp(np.log2(max(memory_bytes, 1.0)), _GRID, curve))) * beyond
    return Predicted(mean_s, mean_s * _spread(memory, ratios, np.log2(max(memory_bytes, 1.0))))


def _correction(memory: _ByMeasured, ratios: _ByMeasured) -> NDArray[np.float64]:
    """Return by how much the line is wrong at each point of the grid, as a logarithm."""
    alike = _alike(memory[None, :], _GRID[:, None])
    faded = alike * _FADE ** (np.cumsum(alike, axis=1) - alike)
    found: NDArray[np.float64] = faded @ ratios / (faded.sum(axis=1) + _LINE_WEIGHT)
    return found


def _spread(memory: _ByMeasured, ratios: _ByMeasured, at: float) -> float:
    """Return the relative standard deviation of a prediction: that of the measurements of about as much memory."""
    alike = _alike(memory, at)
    faded = alike * _FADE ** (np.cumsum(alike) - alike)
    errors = np.expm1(ratios - _told_by_others(memory, ratios)) ** 2
    weight = 3 * _ASSUMED_WEIGHT
    return sqrt((float(faded @ errors) + weight * _ASSUMED_SPREAD**2) / (float(faded.sum()) + weight))


def _alike(memory: _ByMeasured, at: _ByMeasured | float) -> _ByMeasured:
    """Return how much measurements are like one of another memory, both as logarithms: 1 for just as much."""
    found: _ByMeasured = np.exp(-0.5 * (memory - at) ** 2)
    return found


def _told_by_others(memory: _ByMeasured, ratios: _ByMeasured) -> _ByMeasured:
    """Return what the correction at each measurement would be without it (K)."""
    weights = _alike(memory[None, :], memory[:, None])
    np.fill_diagonal(weights, 0.0)
    told: _ByMeasured = weights @ ratios / (weights.sum(axis=1) + _LINE_WEIGHT)
    return told


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
