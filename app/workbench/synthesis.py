"""Synthetic workloads: the log-normal arrivals and lifetimes of the paper on spot SLAs, Table I."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np

from app.domain.inputs import InputError
from app.domain.times import DAY_US, SECOND_US
from app.workbench.workload import TraceInstance

_MOST_INSTANCES = 10_000_000


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Parameters of the logarithm of a number of seconds."""

    mu: float
    sigma: float

    @property
    def mean_s(self) -> float:
        """Mean of the distribution, in seconds."""
        return exp(self.mu + self.sigma**2 / 2)


ARRIVALS = LogNormal(4.0, 1.0)
LIFETIMES = LogNormal(6.0, 1.5)
"""Times between arrivals, and lifetimes, of the paper on spot SLAs, Table I."""


def synthesize(*, days: float, mean_utilisation: float, cores: int, seed: int) -> list[TraceInstance]:
    """Return the log-normal workload of the papers, over `days` days.

    Table I gives a mean utilisation that its parameters do not have (docs/evaluation.md). So the times between arrivals
    are scaled until the expected number of cores in use, cores * mean lifetime / mean time between arrivals, is
    `mean_utilisation`. Raises InputError if the trace would not fit into memory.
    """
    count = days * DAY_US / SECOND_US * mean_utilisation / (cores * LIFETIMES.mean_s)
    if not (days > 0 and mean_utilisation > 0 and count <= _MOST_INSTANCES):
        raise InputError(
            f"{days:g} days at a mean utilisation of {mean_utilisation:g} are {count:.0f} instances: "
            f"both must be above 0, and no more than {_MOST_INSTANCES} instances are made"
        )
    scale = cores * LIFETIMES.mean_s / ARRIVALS.mean_s / mean_utilisation
    generator = np.random.default_rng(seed)
    instances: list[TraceInstance] = []
    at_s = 0.0
    while True:
        at_s += scale * generator.lognormal(ARRIVALS.mu, ARRIVALS.sigma)
        lifetime_s = generator.lognormal(LIFETIMES.mu, LIFETIMES.sigma)
        if at_s * SECOND_US >= days * DAY_US:
            return instances
        name = str(len(instances) + 1)
        instances.append(TraceInstance(name, round(at_s * SECOND_US), round(lifetime_s * SECOND_US), cores))
