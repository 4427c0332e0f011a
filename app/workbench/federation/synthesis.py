"""Jobs with the counts and means of EXFed's Table I, for the traces themselves were never published.

The recipe is that of the README beside the given jobs; the shapes are not the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from app.domain.inputs import InputError
from app.forecast.survival import Floats
from app.workbench.federation.joblines import JobLine

_HOUR_S, _DAY_S, _WEEK_S = 3600.0, 86_400.0, 604_800.0
_MOST_INSTANCES = 16
_INPUT_SHARE = 0.8
_BYTES_MU, _BYTES_SIGMA = -0.5, 1.0
_NIGHT, _WEEKEND = 0.15, 0.4
_PIPELINE = 6
_BETWEEN_S = 3600.0
"""The mean time between the starts of a pipeline; the recipe does not say it: read from the given jobs."""
_MORNING_S = 7 * _HOUR_S
Draw = np.random.Generator


class Segment(NamedTuple):
    """A row of Table I: counts of jobs and of instances, terabytes, weeks, hours of an instance on average.

    `sigma` is that of the lifetimes' logarithm. `starts` draws moments, as shares of the time.
    """

    jobs: int
    instances: int
    terabytes: float
    weeks: int
    mean_h: float
    sigma: float
    starts: str


SEGMENTS = {
    "A1": Segment(2300, 3000, 1100, 2, 2.2, 1.2, "seasonal"),
    "A2": Segment(1500, 2000, 50, 2, 2.9, 1.2, "seasonal"),
    "B1": Segment(1300, 4200, 80, 12, 2.2, 1.2, "pipelined"),
    "B2": Segment(1500, 2400, 180, 12, 9.3, 1.2, "uniform"),
    "C1": Segment(1200, 2800, 0, 30, 10.0, 1.2, "uniform"),
    "C2": Segment(500, 1900, 0, 30, 45.5, 1.6, "uniform"),
}


def synthesize_jobs(segment: str, seed: int) -> list[JobLine]:
    """Return the jobs of a segment of Table I, by start. The same seed gives the same jobs."""
    if segment not in SEGMENTS:
        raise InputError(f"segment {segment!r} is none of {', '.join(SEGMENTS)}")
    row = SEGMENTS[segment]
    draw = np.random.default_rng([seed, list(SEGMENTS).index(segment)])
    starts = np.sort(_STARTS[row.starts](draw, row.jobs, row.weeks * _WEEK_S))
    over_h = row.mean_h - 1.0
    mu = np.log(over_h * _HOUR_S) - row.sigma**2 / 2
    lifetimes = _HOUR_S + draw.lognormal(mu, row.sigma, len(starts))
    counts = np.minimum(draw.geometric(row.jobs / row.instances, len(starts)), _MOST_INSTANCES)
    bytes_per_h = row.terabytes * 1e12 / (row.instances * row.mean_h)
    data = bytes_per_h * counts * lifetimes / _HOUR_S * draw.lognormal(_BYTES_MU, _BYTES_SIGMA, len(starts))
    rows = zip(starts.tolist(), lifetimes.tolist(), counts.tolist(), data.tolist(), strict=True)
    return [
        JobLine(start, lifetime, 1, count, int(size * _INPUT_SHARE), int(size * (1 - _INPUT_SHARE)))
        for start, lifetime, count, size in rows
    ]


def _uniform(draw: Draw, count: int, end_s: float) -> Floats:
    return draw.uniform(0.0, end_s, count)


def _seasonal(draw: Draw, count: int, end_s: float) -> Floats:
    """Draw more starts by day than by night and on working days; the day's peak is at 13 h."""
    kept: list[float] = []
    while len(kept) < count:
        at_s = draw.uniform(0.0, end_s)
        day = max(np.sin(2 * np.pi * (at_s - _MORNING_S) / _DAY_S), 0.0)
        rate = (_NIGHT + day) * (_WEEKEND if at_s % _WEEK_S >= 5 * _DAY_S else 1.0)
        if draw.uniform(0.0, 1.0 + _NIGHT) < rate:
            kept.append(at_s)
    return np.array(kept)


def _pipelined(draw: Draw, count: int, end_s: float) -> Floats:
    """Draw pipelines of jobs that follow each other; those that would start after the end are left out."""
    begins = draw.uniform(0.0, end_s, -(-count // _PIPELINE))
    gaps = draw.exponential(_BETWEEN_S, (len(begins), _PIPELINE))
    gaps[:, 0] = 0.0
    starts: Floats = (begins[:, None] + np.cumsum(gaps, axis=1)).ravel()[:count]
    return starts[starts < end_s]


_STARTS: dict[str, Callable[[Draw, int, float], Floats]] = {
    "uniform": _uniform,
    "seasonal": _seasonal,
    "pipelined": _pipelined,
}
