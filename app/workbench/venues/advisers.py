"""Advisers of a backtest: which machines a method offers for a job, each with its survival and its costs."""

from __future__ import annotations

from math import ceil
from typing import Protocol

import numpy as np

from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.venues.rules.candidates import candidate_bids
from app.venues.rules.choose import ON_DEMAND, MachineOption, can_serve
from app.venues.rules.cost import failed_cost, past_starts, replayed_costs, success_cost
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import highest_within, lattice, least_bid, prices_at, share_alive, share_surviving
from app.workbench.venues.jobs import VenueJob
from app.workbench.venues.leases import Lease
from app.workbench.venues.setting import BacktestSetting
from app.workbench.venues.walking import WalkedSurvival, row_of

TRANSFER = 0.01
"""Dollars to move a job's gigabyte into another zone than the first."""
_SHARES = np.array([0.5, 0.75, 0.9, 0.97, 1.0])


class Adviser(Protocol):
    """Offers machines for jobs."""

    def new_machines(self, job: VenueJob) -> list[MachineOption]:
        """Return the machines that could be leased now."""

    def leased_machine(self, job: VenueJob, lease: Lease, number: int) -> MachineOption | None:
        """Return an idle machine as an option, None if it does not do."""


class OnDemandMachines:
    """The pools that can serve a job, and the machines on demand among them."""

    def __init__(self, setting: BacktestSetting) -> None:
        self._setting = setting

    def pools(self, pool: int) -> list[int]:
        """Return the pools whose machines can serve what a pool's can."""
        asked = self._setting.machine(self._setting.names[pool])
        machines = enumerate(map(self._setting.machine, self._setting.names))
        return [at for at, one in machines if one and asked and can_serve(*one[:2], *asked[:2])]

    def transfer(self, pool: int) -> float:
        """Return the price of moving a job's data to a pool."""
        return 0.0 if self._setting.names[pool].zone == self._setting.names[0].zone else TRANSFER

    def options(self, job: VenueJob) -> list[MachineOption]:
        """Return the cheapest machine on demand that can serve a job."""
        on_demand = self._setting.on_demand
        pool = min(self.pools(job.pool), key=lambda at: on_demand[at])
        return [MachineOption(pool, ON_DEMAND, 1.0, on_demand[pool] * ceil(job.lifetime_us / HOUR_US), 0.0)]

    def leased(self, job: VenueJob, lease: Lease, number: int) -> MachineOption:
        """Return an idle machine on demand as an option."""
        cost = success_cost(self._setting.on_demand[lease.pool], job.lifetime_us, lease.paid_us - job.now_us)
        return MachineOption(lease.pool, ON_DEMAND, 1.0, cost, 0.0, number)


class ThesisAdviser:
    """RAMP's rule (4.8, 4.15, 4.16): in each pool the least bid with a reliability of S_lb."""

    def __init__(self, setting: BacktestSetting, level: float) -> None:
        self._setting, self._level, self._fixed = setting, level, OnDemandMachines(setting)

    def new_machines(self, job: VenueJob) -> list[MachineOption]:
        """Return the least fit bid of each pool, and a machine on demand."""
        found = self._fixed.options(job)
        for pool in self._fixed.pools(job.pool):
            past = self._setting.past(pool, job.now_us)
            if past is not None:
                highest = highest_within(past, _starts(self._setting, past), job.lifetime_us)
                bid = least_bid(highest, self._level, float(past.price[-1]))
                if not np.isnan(bid):
                    found.append(self._priced(job, pool, bid, share_surviving(highest, bid), past))
        return found

    def leased_machine(self, job: VenueJob, lease: Lease, number: int) -> MachineOption | None:
        """Return an idle machine if its bid has a reliability of S_lb for the job."""
        if lease.bid == ON_DEMAND:
            return self._fixed.leased(job, lease, number)
        past = self._setting.past(lease.pool, job.now_us)
        if past is None or past.price[-1] > lease.bid:
            return None
        starts = past_starts(past, self._setting.window_us, lease.bid)
        alive = share_alive(starts.lasted_us, starts.revoked, job.lifetime_us)
        found = self._priced(job, lease.pool, lease.bid, alive, past, lease.paid_us - job.now_us)
        return found._replace(idle=number) if alive >= self._level else None

    def _priced(
        self, job: VenueJob, pool: int, bid: float, alive: float, past: PriceSteps, paid_us: int = 0
    ) -> MachineOption:
        price, extra = float(past.price[-1]), self._fixed.transfer(pool)
        failed = 0.0
        if alive < 1.0:
            failed = failed_cost(past_starts(past, self._setting.window_us, bid), price, job.lifetime_us, paid_us)
        done = success_cost(price, job.lifetime_us, paid_us)
        return MachineOption(pool, bid, alive, done + extra, failed + extra)


class LearnedAdviser:
    """This service's rule: pool and bid are free, survival is learned, costs are those of past starts like now."""

    def __init__(self, setting: BacktestSetting) -> None:
        self._setting, self._fixed, self._walked = setting, OnDemandMachines(setting), WalkedSurvival(setting)

    def new_machines(self, job: VenueJob) -> list[MachineOption]:
        """Return some bids in each pool, and a machine on demand."""
        found = self._fixed.options(job)
        for pool in self._fixed.pools(job.pool):
            past = self._setting.past(pool, job.now_us)
            if past is not None:
                highest = highest_within(past, _starts(self._setting, past), job.lifetime_us)
                found += self._priced(job, pool, self._bids(pool, past, highest), past)
        return found

    def leased_machine(self, job: VenueJob, lease: Lease, number: int) -> MachineOption | None:
        """Return an idle machine with what is left to pay."""
        if lease.bid == ON_DEMAND:
            return self._fixed.leased(job, lease, number)
        past = self._setting.past(lease.pool, job.now_us)
        if past is None or past.price[-1] > lease.bid:
            return None
        [found] = self._priced(job, lease.pool, np.array([lease.bid]), past)
        left = success_cost(1.0, job.lifetime_us, lease.paid_us - job.now_us) / ceil(job.lifetime_us / HOUR_US)
        return found._replace(idle=number, cost=found.cost * left, failed_cost=found.failed_cost * left)

    def _bids(self, pool: int, past: PriceSteps, highest: Dollars) -> Dollars:
        """Return quantiles of the running maximum, and what lies a little and far above the price."""
        price, on_demand = float(past.price[-1]), self._setting.on_demand[pool]
        known = [bid for bid in (least_bid(highest, share, price) for share in _SHARES) if not np.isnan(bid)]
        steps = np.array([1.05, 1.2, 1.6]) * price
        bids = np.unique(np.concatenate((known, steps, [max(price, on_demand), candidate_bids(price, on_demand)[-1]])))
        return np.asarray(bids, np.float64)

    def _priced(self, job: VenueJob, pool: int, bids: Dollars, past: PriceSteps) -> list[MachineOption]:
        starts_us, extra = _starts(self._setting, past), self._fixed.transfer(pool)
        alive = self._walked.at(job.now_us).chances(row_of(self._setting, pool, past, bids.tolist(), job.lifetime_us))
        prices = prices_at(past.at_us, past.price, starts_us)
        done, failed = replayed_costs(past, starts_us, prices, bids, job.lifetime_us)
        rows = zip(bids.tolist(), np.maximum.accumulate(alive).tolist(), done.tolist(), failed.tolist(), strict=True)
        return [MachineOption(pool, bid, share, cost + extra, less + extra) for bid, share, cost, less in rows]


def _starts(setting: BacktestSetting, past: PriceSteps) -> Ints:
    return lattice(max(int(past.at_us[0]), past.end_us - setting.window_us), past.end_us, EVERY_US)
