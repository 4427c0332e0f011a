"""The machines that could run a job of a RAMC-DC backtest, each with its time, cost and bid."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, isnan
from typing import NamedTuple

from app.domain.times import HOUR_US
from app.venues.rules.checkpoints import (
    CheckpointedRun,
    CheckpointRule,
    expected_pauses_us,
    guarded_run,
    interval_us,
    periodic_run,
    resume_us,
    stopped_at,
    suspend_us,
)
from app.venues.rules.choose import ON_DEMAND
from app.venues.rules.provision import DeadlineNeeds, MachineWay, Provisioned, provision
from app.venues.rules.types import MachineType
from app.workbench.venues.deadlinejobs import DeadlineJob
from app.workbench.venues.leases import Lease
from app.workbench.venues.leastbids import LeastBids
from app.workbench.venues.setting import BacktestSetting

STAYS_FROM = 0.8
"""A job stays where it is if another place does not cost less than so much of it. On 2015-04-25 to 06-09 .9, .7 and .5
cost the same, within .1 points.
"""


class Scheme(NamedTuple):
    """A way to run jobs: the level of bids (None: on demand only), t_split in hours, and the checkpoints."""

    level: int | None
    split_h: float
    rule: CheckpointRule
    has_net: bool = False
    """True if a job goes on demand at the latest moment from which it is in time (not with checkpoints at rises)."""
    looks_again: bool = False
    """True if a job on a spot machine looks for a cheaper one before each further hour that it would pay."""
    most_over_on_demand: float = inf
    """No bid is above so many times the on-demand price of its machine type."""


class WaitingJob(NamedTuple):
    """A job that waits for a leased machine, and how long it is expected to take there."""

    job: DeadlineJob
    takes_us: float


@dataclass(slots=True)
class HeldMachine:
    """A leased machine with the job that runs on it and those that wait."""

    lease: Lease
    job: DeadlineJob | None = None
    expected_end_us: float = 0.0
    work_from_us: float = 0.0
    run: CheckpointedRun | None = None
    turn: int = 0
    """Counts the runs, so that an event of an earlier one is known."""
    looks_for_us: int = 0
    """The end of the paid hour before which its job looks for another machine."""
    waiting: deque[WaitingJob] = field(default_factory=deque)

    def wait_us(self, now_us: int) -> float:
        """Return the time until it is expected to be idle (ETUI)."""
        busy_us = max(self.expected_end_us - now_us, 1.0) if self.job is not None else 0.0
        return busy_us + sum(one.takes_us for one in self.waiting)

    def paid_rest_us(self, now_us: int, wait_us: float) -> float:
        """Return what will be left of the last paid hour when it is idle."""
        idle_us = now_us + wait_us
        return (
            (self.lease.paid_us - idle_us) % HOUR_US if idle_us > self.lease.paid_us else self.lease.paid_us - idle_us
        )


class MachineWays:
    """Tells what a job could run on under a scheme."""

    def __init__(self, setting: BacktestSetting, bids: LeastBids, scheme: Scheme) -> None:
        self._setting, self._bids, self._scheme = setting, bids, scheme
        machines = [setting.machine(name) for name in setting.names]
        self._pools = {at: machine for at, machine in enumerate(machines) if machine is not None}

    def machine(self, pool: int) -> MachineType:
        """Return a pool's type."""
        return self._pools[pool]

    def zone(self, pool: int) -> str:
        """Return a pool's zone."""
        return self._setting.names[pool].zone

    def _needs(self, job: DeadlineJob, now_us: int) -> DeadlineNeeds:
        """Return what a job needs now."""
        kinds = {self._setting.names[pool].instance_type: machine for pool, machine in self._pools.items()}
        times = {kind: job.work_us(machine) + job.resume_us(job.zone) for kind, machine in kinds.items()}
        fast = frozenset(kind for kind, machine in kinds.items() if machine.compute_units >= job.units)
        return DeadlineNeeds(job.deadline_us - now_us, times, fast)

    def best(self, job: DeadlineJob, held: Sequence[HeldMachine], now_us: int) -> Provisioned:
        """Return the machine of algorithm 3. Bids take time to find, so only those of the cheapest are asked for."""
        needs, leased = self._needs(job, now_us), [*self._leased(job, held, now_us)]
        new = self._told_apart(job, [*self._new(job, now_us)], now_us)
        if self._scheme.has_net:
            leased, new = self._safe(job, leased, new, now_us)
        while True:
            found = provision(needs, leased, new)
            if (way := self._with_bid(job, found.way, now_us)) is not None:
                return found._replace(way=way)
            leased = [one for one in leased if one is not found.way]
            new = [one for one in new if one is not found.way]

    def leaving(
        self, job: DeadlineJob, machine: HeldMachine, held: Sequence[HeldMachine], now_us: int
    ) -> CheckpointedRun | None:
        """Return the run of a machine that its job leaves at the end of the paid hour; None if it should stay.

        It leaves if its rest costs less than `STAYS_FROM` of what it costs here, all at the prices now, in another
        pool, and if it would be in time on demand from there. `held` are the other machines.
        """
        pool, price = machine.lease.pool, self._price(machine.lease.pool, 0.0, now_us)
        others = (self._price(at, 0.0, now_us) for at, kind in self._pools.items() if job.work_us(kind) < inf)
        if machine.run is None or not any(other < STAYS_FROM * price for other in others):
            return None
        pause_us, zone = suspend_us(job.memory_gib), self.zone(pool)
        run = stopped_at(machine.run, machine.looks_for_us - machine.work_from_us, pause_us)
        if run is None:
            return None
        moved = replace(job, zone=zone)
        moved.save(run.saved_us[-1], self.machine(pool))
        on_demand_us = (1.0 - moved.saved) * job.own_us + resume_us(job.memory_gib, is_same_zone=False)
        if machine.work_from_us + run.length_us + on_demand_us > job.deadline_us:
            return None
        stays_us = self._takes_us(moved, pool, machine.lease.bid, now_us) - moved.resume_us(zone)
        way = self.best(moved, held, now_us).way
        is_better = way.pool != pool and way.cost < STAYS_FROM * price * ceil(stays_us / HOUR_US)
        return run if is_better else None

    def _new(self, job: DeadlineJob, now_us: int) -> Iterator[MachineWay]:
        """Yield the spot machines, whose bid is still the price now, and each type on demand in the job's zone."""
        by_kind = dict[str, int]()
        for pool in self._pools:
            kind = self._setting.names[pool].instance_type
            if kind not in by_kind or self.zone(pool) == job.zone:
                by_kind[kind] = pool
            if self._scheme.level is not None and (way := self._spot(job, pool, now_us)) is not None:
                yield way
        for kind, pool in by_kind.items():
            takes_us = job.work_us(self.machine(pool)) + job.resume_us(self.zone(pool))
            if takes_us < ON_DEMAND:
                cost = self._setting.on_demand[pool] * ceil(takes_us / HOUR_US)
                yield MachineWay(kind, pool, ON_DEMAND, takes_us, cost + job.moving_cost(self.zone(pool)), 1.0)

    def _leased(self, job: DeadlineJob, held: Sequence[HeldMachine], now_us: int) -> Iterator[MachineWay]:
        """Yield the leased machines, whether or not their bids reach the level."""
        for number, machine in enumerate(held):
            pool, bid = machine.lease.pool, machine.lease.bid
            takes_us, price = self._takes_us(job, pool, bid, now_us), self._price(pool, bid, now_us)
            if takes_us == ON_DEMAND or isnan(price):
                continue
            wait_us = machine.wait_us(now_us)
            hours = ceil(max(takes_us - machine.paid_rest_us(now_us, wait_us), 0.0) / HOUR_US)
            cost = price * hours + job.moving_cost(self.zone(pool))
            kind = self._setting.names[pool].instance_type
            yield MachineWay(kind, pool, bid, takes_us, cost, 1.0, wait_us, number)

    def _told_apart(self, job: DeadlineJob, ways: list[MachineWay], now_us: int) -> list[MachineWay]:
        """Return the ways with the survival of those whose cost is that of another."""
        counts = Counter(way.cost for way in ways)
        return [
            self._surviving(job, way, now_us) if counts[way.cost] > 1 and way.bid != ON_DEMAND else way for way in ways
        ]

    def _surviving(self, job: DeadlineJob, way: MachineWay, now_us: int) -> MachineWay:
        lifetime_us = None if self._is_short(job, way.pool) else way.takes_us
        bid = max(way.bid, self._least(job, way.pool, way.takes_us, now_us))
        return way._replace(survival=self._bids.survival(way.pool, now_us, lifetime_us, bid))

    def _with_bid(self, job: DeadlineJob, way: MachineWay, now_us: int) -> MachineWay | None:
        """Return a chosen machine with its bid; None if nothing is known of its pool, or its bid is below the level."""
        if way.bid == ON_DEMAND:
            return way
        least = self._least(job, way.pool, way.takes_us, now_us)
        if way.number >= 0:
            return way if way.bid >= least else None
        return None if isnan(least) else way._replace(bid=max(way.bid, least))

    def periodic(self, job: DeadlineJob, pool: int, bid: float, now_us: int, begin_us: float) -> CheckpointedRun:
        """Return a job's run on a machine from a time; with the safety net, only as far as that lets it go."""
        machine, pause_us = self.machine(pool), suspend_us(job.memory_gib)
        work_us = job.work_us(machine)
        run = periodic_run(work_us, self._every_us(job, pool, bid, now_us), pause_us)
        if not self._scheme.has_net or bid == ON_DEMAND:
            return run
        left_us = (1.0 - job.saved) * job.own_us
        room_us, read_us = job.deadline_us - begin_us - left_us, resume_us(job.memory_gib, is_same_zone=False)
        return guarded_run(run, room_us, read_us, left_us / work_us, pause_us, is_saved=job.saved > 0.0)

    def _safe(
        self, job: DeadlineJob, leased: list[MachineWay], new: list[MachineWay], now_us: int
    ) -> tuple[list[MachineWay], list[MachineWay]]:
        """Return the machines on which the net lets a job end; without a spot machine among them, those to begin on.

        Waiting for a leased machine may use up the slack, so that the net would soon take the job off it.
        """
        runs = {way: self._guarded(job, way, now_us) for way in (*leased, *new) if way.bid != ON_DEMAND}
        fit = {way for way, run in runs.items() if not run.is_cut}
        fit = fit or {way for way, run in runs.items() if run.length_us > 0.0}
        kept = [[way for way in ways if way.bid == ON_DEMAND or way in fit] for ways in (leased, new)]
        return kept[0], kept[1]

    def _guarded(self, job: DeadlineJob, way: MachineWay, now_us: int) -> CheckpointedRun:
        least = max(way.bid, self._least(job, way.pool, way.takes_us, now_us)) if way.number < 0 else way.bid
        begin_us = now_us + way.wait_us + job.resume_us(self.zone(way.pool))
        return self.periodic(job, way.pool, least, now_us, begin_us)

    def _every_us(self, job: DeadlineJob, pool: int, bid: float, now_us: int) -> float:
        """Return the work between two checkpoints."""
        if bid == ON_DEMAND:
            return ON_DEMAND
        pause_us, rule = suspend_us(job.memory_gib), self._scheme.rule
        hazard = self._bids.hazard_per_us(pool, now_us, bid) if rule is CheckpointRule.HAZARD else 0.0
        return interval_us(rule, pause_us, hazard)

    def _spot(self, job: DeadlineJob, pool: int, now_us: int) -> MachineWay | None:
        bid = price = self._price(pool, 0.0, now_us)
        takes_us = job.work_us(self.machine(pool)) + job.resume_us(self.zone(pool))
        if isnan(price) or takes_us == ON_DEMAND or price > self._most(pool):
            return None
        if self._scheme.rule is CheckpointRule.HAZARD:  # the interval by the hazard needs the bid
            bid = max(price, self._least(job, pool, takes_us, now_us))
        takes_us = self._takes_us(job, pool, bid, now_us)
        cost = price * ceil(takes_us / HOUR_US) + job.moving_cost(self.zone(pool))
        return MachineWay(self._setting.names[pool].instance_type, pool, bid, takes_us, cost, 0.0)

    def _takes_us(self, job: DeadlineJob, pool: int, bid: float, now_us: int) -> float:
        """Return the time on a machine, with resuming and checkpoints (5.5)."""
        work_us, rule = job.work_us(self.machine(pool)), self._scheme.rule
        if work_us == ON_DEMAND:
            return ON_DEMAND
        pauses_us = 0.0
        if bid != ON_DEMAND:
            rises = self._bids.rises_per_us(pool, now_us) if rule is CheckpointRule.RISING else 0.0
            every_us = self._every_us(job, pool, bid, now_us)
            pauses_us = expected_pauses_us(rule, work_us, suspend_us(job.memory_gib), every_us, rises)
        return work_us + pauses_us + job.resume_us(self.zone(pool))

    def _least(self, job: DeadlineJob, pool: int, takes_us: float, now_us: int) -> float:
        """Return what a bid must reach: by availability for short jobs, by reliability for others (5.10, 5.13)."""
        level = self._scheme.level
        if level is None:
            return float("nan")
        least = self._bids.least(pool, now_us, None if self._is_short(job, pool) else takes_us, level)
        return least if isnan(least) else min(least, self._most(pool))

    def _most(self, pool: int) -> float:
        return self._scheme.most_over_on_demand * self._setting.on_demand[pool]

    def _is_short(self, job: DeadlineJob, pool: int) -> bool:
        return job.work_us(self.machine(pool)) <= self._scheme.split_h * HOUR_US

    def _price(self, pool: int, bid: float, now_us: int) -> float:
        return self._setting.on_demand[pool] if bid == ON_DEMAND else self._setting.steps[pool].price_at(now_us)
