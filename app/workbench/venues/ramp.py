"""The backtest of RAMP (chapter 4): machines are leased for requests by expected profit, and reused while paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.calibrate import RunningRatio
from app.venues.rules.choose import ON_DEMAND, MachineOption, most_profitable
from app.workbench.venues.advisers import Adviser, LearnedAdviser, OnDemandMachines, ThesisAdviser
from app.workbench.venues.jobs import RecordedJob, VenueJob, place_jobs
from app.workbench.venues.leases import Lease, new_lease, use_until
from app.workbench.venues.setting import BacktestSetting

RAMP_LEVELS = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
TERMS = (
    (0.25, 0.25), (0.0, 0.25), (1.0, 0.25), (0.25, 0.35), (0.25, 0.0), (0.25, 0.15), (0.25, 0.2), (0.25, 0.5),
)  # fmt: skip
"""Penalty e and price p, both as shares: of the revenue, and of the on-demand price."""
REQUESTS = 3_000
_SEED = 4_000
_BLOCK_US = 3 * DAY_US
_RESAMPLED = 2_000
CAUTIOUS = 0.97
"""In further cells of this service's method every machine that is taken survives with at least this probability."""
_LAST_US = 42 * DAY_US
"""Estimates of costs are judged over so much of the end of the test."""


class Fulfilment(NamedTuple):
    """A request's end: when, if it was revoked, the profit, what was paid, what was said of it, and on demand."""

    now_us: int
    revoked: bool
    profit: float
    paid: float
    said: float
    calibrated: float
    """The estimate, times what past outcomes of the machine type had come to over what was said of them."""
    on_demand: float


class SaidCosts:
    """Estimates of costs by machine type, with outcomes that count once they are known, in order of time."""

    def __init__(self) -> None:
        self._ratios: dict[str, RunningRatio] = defaultdict(RunningRatio)
        self._awaited = list[tuple[int, str, float, float]]()

    def calibrated(self, kind: str, said: float, now_us: int) -> float:
        """Return a cost as the outcomes known by now let expect it."""
        while self._awaited and self._awaited[0][0] <= now_us:
            _, known, paid, promised = heappop(self._awaited)
            self._ratios[known].note(paid, promised)
        return said * self._ratios[kind].value

    def promise(self, kind: str, known_us: int, paid: float, said: float) -> None:
        """Note what will be known at a time."""
        heappush(self._awaited, (known_us, kind, paid, said))


def backtest_ramp(
    setting: BacktestSetting,
    method: str,
    levels: Sequence[float],
    recorded: list[RecordedJob] | None,
    count: int | None = None,
) -> dict[str, Any]:
    """Return profit and tau, the share revoked, at e = p = .25, and by level, e and p."""
    jobs = place_jobs(setting, recorded, count or REQUESTS, _SEED)
    cells: dict[str, list[Fulfilment]] = {}
    ways: list[tuple[str, Adviser]] = [(f"S_lb {level:g} ", ThesisAdviser(setting, level)) for level in levels]
    if method != "thesis":
        ways = [("", LearnedAdviser(setting))]
    for number, (name, adviser) in enumerate(ways):
        offers = _offers(setting, adviser, jobs, (number, len(ways)))
        for penalty, price in TERMS:
            terms = f"e {penalty:g} p {price:g}"
            cells[f"{name}{terms}"] = _fulfil(setting, adviser, jobs, offers, (penalty, price))
            if method != "thesis":
                found = _fulfil(setting, adviser, jobs, offers, (penalty, price), CAUTIOUS)
                cells[f"survival >= {CAUTIOUS:g} {terms}"] = found
    first = f"{ways[-1][0]}e 0.25 p 0.25"
    summaries = {name: _summary(found, setting.to_us) for name, found in cells.items()}
    return summaries[first] | {"cells": summaries}


def _offers(
    setting: BacktestSetting, adviser: Adviser, jobs: Sequence[VenueJob], part: tuple[int, int]
) -> list[list[MachineOption]]:
    """Return what the adviser offers for each job; it does not depend on prices and penalties."""
    found = []
    for number, job in enumerate(jobs, 1):
        found.append(adviser.new_machines(job))
        setting.progress(part[0] * len(jobs) + number, part[1] * len(jobs))
    return found


def _fulfil(
    setting: BacktestSetting,
    adviser: Adviser,
    jobs: Sequence[VenueJob],
    offers: Sequence[list[MachineOption]],
    terms: tuple[float, float],
    least_survival: float = 0.0,
) -> list[Fulfilment]:
    """Return the ends of all requests in order of time (algorithm 2)."""
    fixed, leases, found, said = OnDemandMachines(setting), list[Lease](), [], SaidCosts()
    for job, offered in zip(jobs, offers, strict=True):
        leases = [lease for lease in leases if job.now_us < min(lease.paid_us, lease.revoked_us)]
        fit = set(fixed.pools(job.pool))
        idle = [
            option
            for number, lease in enumerate(leases)
            if lease.is_idle(job.now_us) and lease.pool in fit
            if (option := adviser.leased_machine(job, lease, number)) is not None
        ]
        on_demand = setting.on_demand[job.pool] * job.lifetime_us / HOUR_US
        fit_enough = (option for option in (*idle, *offered) if option.survival >= least_survival)
        chosen = most_profitable(fit_enough, terms[1] * on_demand, terms[0])
        if chosen.idle < 0:
            leases.append(new_lease(setting.steps[chosen.pool], chosen.pool, chosen.bid, job.now_us))
        found.append(_end(setting, job, chosen, leases[chosen.idle], said, (terms[0], terms[1] * on_demand)))
    return found


def _end(
    setting: BacktestSetting,
    job: VenueJob,
    chosen: MachineOption,
    lease: Lease,
    costs: SaidCosts,
    terms: tuple[float, float],
) -> Fulfilment:
    """Run a job on a machine and return what came of it; terms are the penalty and the revenue."""
    fixed = OnDemandMachines(setting)
    penalty, revenue = terms
    until_us, on_demand = job.now_us + job.lifetime_us, setting.on_demand[chosen.pool]
    paid = use_until(lease, setting.steps[chosen.pool], on_demand, until_us)
    paid += fixed.transfer(chosen.pool) if chosen.bid != ON_DEMAND else 0.0
    revoked = lease.revoked_us < until_us
    profit = -paid - penalty * revenue if revoked else revenue - paid
    said = chosen.survival * chosen.cost + (1 - chosen.survival) * chosen.failed_cost
    asked = setting.on_demand[job.pool] * ceil(job.lifetime_us / HOUR_US)
    kind = setting.names[chosen.pool].instance_type
    calibrated = costs.calibrated(kind, said, job.now_us)
    costs.promise(kind, min(lease.paid_us, lease.revoked_us), paid, said)
    return Fulfilment(job.now_us, revoked, profit, paid, said, calibrated, asked)


def _summary(found: Sequence[Fulfilment], to_us: int) -> dict[str, float | int | None]:
    profits = np.array([one.profit for one in found])
    late = [one for one in found if one.now_us >= to_us - _LAST_US]
    low, high = _interval(found)
    return {
        "profit": float(profits.sum()),
        "profit_low": low,
        "profit_high": high,
        "tau": float(np.mean([one.revoked for one in found])),
        "cost_over_on_demand": sum(one.paid for one in found) / sum(one.on_demand for one in found),
        "paid_over_said": sum(one.paid for one in found) / max(sum(one.said for one in found), 1e-9),
        "paid_over_calibrated": sum(one.paid for one in late) / max(sum(one.calibrated for one in late), 1e-9),
        "count": len(found),
    }


def _interval(found: Sequence[Fulfilment]) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of 95 % of the whole profit, by drawing blocks of three days anew; one block shows none."""
    by_block: dict[int, float] = defaultdict(float)
    for one in found:
        by_block[one.now_us // _BLOCK_US] += one.profit
    blocks = np.array([*by_block.values()])
    if len(blocks) < 2:
        return None, None
    draw = np.random.default_rng(0)
    drawn = draw.choice(blocks, (_RESAMPLED, len(blocks))).sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
