"""The parts of a plan: jobs, the pools that could run them, and the options among which it chooses.

A pool either has recorded prices, under which machines are revoked by their bid, or a steady price and a curve: how
many machines are alive after a time. Costs are in one currency, whatever it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isinf, log
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US, SECOND_US
from app.engine.cluster import Ints
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.jobsteps import WayTimes
from app.venues.rules.moldable import Parallelism, run_time_us
from app.venues.rules.training import TrainedSurvival
from app.venues.rules.types import MachineType

MONTH_US = 30 * DAY_US
LONGEST_RUN_US = 30 * 366 * DAY_US
"""A machine that would take longer cannot run a job. Ten years of work, as many of reading and of a launch fit."""
FIXED_POOL, NO_POOL = -1, -2
"""The pools of options that are in none: a machine on demand, and not to run the job."""
_POINTS = 256


class SurvivalSource(StrEnum):
    """The evidence for a survival: the pool's past prices, a model learned from those of all pools of its venue, a
    quantile table here or at a peer, observed machines, or a provider's rate.
    """

    PRICE_CROSSING = "price_crossing"
    LEARNED = "learned"
    QUANTILE_TABLE = "quantile_table"
    PEER_PROMISE = "peer_promise"
    OBSERVED = "observed"
    PROVIDER_RATE = "provider_rate"


@dataclass(frozen=True, slots=True)
class PoolCurve:
    """The share `alive` (n, falling) of machines after `times_us` (n, rising), and the windows that it rests on."""

    times_us: Ints
    alive: Dollars
    windows: float
    at_least: float | None = None

    def share_alive(self, lifetime_us: float) -> float:
        """Return the share alive after a time: what holds at the last of the times that are not longer."""
        at = int(self.times_us.searchsorted(lifetime_us, side="left"))
        return float(self.alive[min(at, len(self.alive) - 1)])

    def lifetimes_us(self, shares: Dollars) -> Dollars:
        """Return the lifetime within which each share is lost; infinite where the curve ends before."""
        at = (1.0 - self.alive).searchsorted(shares, side="right")
        return np.append(self.times_us.astype(np.float64), inf)[at]


def curve_of_rate(lost_in_a_month: float) -> PoolCurve:
    """Return the curve of a constant hazard, of which a provider tells the share that it takes back in 30 days.

    A rate is worth one revocation of evidence (docs/venues.md).
    """
    times_us = np.geomspace(60 * SECOND_US, 24 * MONTH_US, _POINTS).astype(np.int64)
    return PoolCurve(times_us, np.exp(log(1.0 - lost_in_a_month) * times_us / MONTH_US), 1.0)


class CheckpointTimes(NamedTuple):
    """The time to write a checkpoint and to read it; the work between two, or None: by the hazard."""

    pause_us: int
    read_us: int
    every_us: float | None = None


class PlanJob(NamedTuple):
    """A job: its run time on a machine with so many units, what it needs, and what is asked of it.

    Without a deadline it is launched once, for its value, and fails if its machine is lost; `penalty` is then the share
    of the value that is paid on top.
    """

    id: str
    work_us: int
    units: float
    memory_gib: float
    deadline_us: int | None
    probability: float
    value: float | None = None
    penalty: float = 0.0
    parallelism: Parallelism | None = None
    checkpoint: CheckpointTimes | None = None

    def run_us(self, machine: MachineType) -> float:
        """Return its run time on a type of machine; infinite if it cannot run there."""
        if machine.memory_gib < self.memory_gib:
            return inf
        if isinf(machine.compute_units):
            return float(self.work_us)
        run_us = run_time_us(self.work_us, self.units, machine.compute_units, self.parallelism)
        return run_us if run_us <= LONGEST_RUN_US else inf


@dataclass(frozen=True, slots=True)
class PlanPool:
    """Machines of a type in a zone, `group`; `units` infinite: as fast as whatever the job was asked for.

    `past`: its prices up to now, with the model of its venue, `trained`, if that may speak of it. Or `curve`, with a
    steady price of an hour. `cap`: the most jobs of a plan that may begin there.
    """

    group: str
    machine: MachineType
    source: SurvivalSource
    past: PriceSteps | None = None
    steady: float = float("nan")
    curve: PoolCurve | None = None
    cap: int | None = None
    trained: TrainedSurvival | None = None

    @property
    def price(self) -> float:
        """Return the price of an hour now."""
        return self.steady if self.past is None else float(self.past.price[-1])


class PlanOption(NamedTuple):
    """A pool and a bid for a job: its survival (of the first machine), what the job costs with all that follows, the
    share of replays in which it is done, and the loss, which is the cost less what it earns.
    """

    pool: int
    bid: float
    times: WayTimes
    survival: float
    at_least: float | None
    windows: float
    cost: float
    done: float
    loss: float
