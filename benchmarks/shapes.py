"""Six synthetic shapes of on-demand load, and a spot demand of mixed lifetimes: 42 days for a platform of 128 cores.

On-demand requests come at a rate that follows the shape (`SHAPES`: a factor by time). A request is a batch of
instances, their number geometric, at most 12. An instance has 1, 2, 4 or 8 cores with probabilities .4, .3, .2 and .1,
and a log-normal lifetime. There are two *kinds* of load and demand:

                                             sudden                  drifting
    mean of a batch                          2                       1.5
    lifetime: median, sigma; mean            2 h, 1.2; 4.1 h         8 h, 2; 59 h
    mean load at a factor of 1, in cores     52                      60
    spot starts a day                        44                      200
    shares of their strata                   .58 .22 .12 .06 .02     .62 .24 .09 .035 .015

Where instances live long, the load drifts and does not jump. The figures of `DRIFTING` were set, on seed 2, so that
two rules other than the default one complete about what is known of them on another synthetic load (docs/forecast.md,
*Rules tried against the bars*).

    stationary  1
    daily       a sine of the day between .5 and 1.5 (highest at 15:00), and .6 of it on days 5 and 6 of a week
    growth      .85, 5 % more each week
    doubling    .6, and 1.2 from day 20 on
    crowds      1, and a crowd within the first three days of each of the weeks 2 to 5: 60 cores are asked for in 2 h
    silence     1, and no request in days 21 to 28

Spot starts come evenly, each of 1, 2 or 4 cores with probabilities .6, .3 and .1. A start's stratum is drawn; its
lifetime is log-uniform from 3 min to 1 h, to 8 h, to 2 d, to 7 d, to 14 d. Everything is a function of the kind, the
shape and the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import SECOND_US
from app.workbench.workload import TraceInstance

DAYS = 42
CAPACITY = (8, 16)
"""Nodes, and cores of each."""


class Kind(NamedTuple):
    """A kind of load and spot demand: its figures as above, the median in seconds."""

    mean_load: float
    batch: float
    median_s: float
    sigma: float
    spot_a_day: float
    stratum_shares: tuple[float, ...]


SUDDEN = Kind(52.0, 2.0, 7200.0, 1.2, 44.0, (0.58, 0.22, 0.12, 0.06, 0.02))
DRIFTING = Kind(60.0, 1.5, 28800.0, 2.0, 200.0, (0.62, 0.24, 0.09, 0.035, 0.015))
_CORES, _CORE_SHARES = np.array([1, 2, 4, 8]), np.array([0.4, 0.3, 0.2, 0.1])
_LARGEST_BATCH = 12
_CROWDS, _CROWD_CORES, _CROWD_H = 4, 60.0, 2.0
_SPOT_CORES, _SPOT_CORE_SHARES = np.array([1, 2, 4]), np.array([0.6, 0.3, 0.1])
_EDGES_S = np.array([180.0, 3600.0, 8 * 3600.0, 2 * 86400.0, 7 * 86400.0, 14 * 86400.0])
_STEP_H = 1 / 6

Floats = NDArray[np.float64]


def _daily(days: Floats) -> Floats:
    weekend = np.where(days % 7 >= 5, 0.6, 1.0)
    return np.asarray((1 + 0.5 * np.sin(2 * np.pi * (days - 0.375))) * weekend)


SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "stationary": np.ones_like,
    "daily": _daily,
    "growth": lambda days: 0.85 * 1.05 ** (days / 7),
    "doubling": lambda days: np.where(days < 20, 0.6, 1.2),
    "crowds": np.ones_like,
    "silence": lambda days: np.where((days >= 21) & (days < 28), 0.0, 1.0),
}
"""The factor of the usual rate at times in days, by the name of the shape."""


def on_demand(shape: str, seed: int, kind: Kind = SUDDEN) -> list[TraceInstance]:
    """Return the on-demand instances of a shape, in the order of their starts."""
    generator = np.random.default_rng([seed, *shape.encode()])
    mean_cores = float(_CORES @ _CORE_SHARES)
    a_day = kind.mean_load / mean_cores / (kind.median_s * np.exp(kind.sigma**2 / 2) / 86400) / kind.batch
    days = np.arange(0, DAYS, _STEP_H / 24)
    rate = a_day * SHAPES[shape](days)
    if shape == "crowds":
        for begin in _crowd_days(generator):
            rate[(days >= begin) & (days < begin + _CROWD_H / 24)] += (
                _CROWD_CORES / mean_cores / kind.batch * 24 / _CROWD_H
            )
    starts_s = _moments_s(rate, generator)
    batches = np.minimum(generator.geometric(1 / kind.batch, len(starts_s)), _LARGEST_BATCH)
    starts_s = np.repeat(starts_s, batches)
    lifetimes_s = generator.lognormal(np.log(kind.median_s), kind.sigma, len(starts_s))
    return _instances(starts_s, lifetimes_s, generator.choice(_CORES, len(starts_s), p=_CORE_SHARES))


def spot(seed: int, kind: Kind = SUDDEN) -> list[TraceInstance]:
    """Return the spot instances of a seed, in the order of their starts."""
    generator = np.random.default_rng([seed, *b"spot"])
    count = generator.poisson(kind.spot_a_day * DAYS)
    starts_s = np.sort(generator.uniform(0, DAYS * 86400, count))
    low, high = np.array([*pairwise(_EDGES_S)])[
        generator.choice(len(kind.stratum_shares), count, p=kind.stratum_shares)
    ].T
    lifetimes_s = low * (high / low) ** generator.uniform(size=count)
    return _instances(starts_s, lifetimes_s, generator.choice(_SPOT_CORES, count, p=_SPOT_CORE_SHARES))


def _crowd_days(generator: np.random.Generator) -> Floats:
    """Return the beginnings of the crowds."""
    return np.array([7.0 * week for week in range(1, _CROWDS + 1)]) + generator.uniform(0, 3, _CROWDS)


def _moments_s(rate: Floats, generator: np.random.Generator) -> Floats:
    """Return the moments (in seconds, rising) of a Poisson process with a rate a day for each step."""
    reached = np.concatenate([[0.0], np.cumsum(rate) * _STEP_H / 24])
    at = np.sort(generator.uniform(0, reached[-1], generator.poisson(reached[-1])))
    return np.asarray(np.interp(at, reached, np.arange(len(reached)) * _STEP_H * 3600))


def _instances(starts_s: Floats, lifetimes_s: Floats, cores: NDArray[np.int64]) -> list[TraceInstance]:
    rows = zip(starts_s.tolist(), lifetimes_s.tolist(), cores.tolist(), strict=True)
    return [
        TraceInstance(str(number), round(start_s * SECOND_US), round(lifetime_s * SECOND_US), size)
        for number, (start_s, lifetime_s, size) in enumerate(rows)
    ]
