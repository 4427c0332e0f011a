"""Policies of checkpoints compared: one job, started at random past moments of each pool, under every policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from app.clusters.rules.hazards import learned_hazard
from app.clusters.rules.policies import HAZARD, NAMES, NOTICE
from app.clusters.rules.runs import PoolUnderBid, RunOutcomes, RunTerms, run_jobs
from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.times import HOUR_US, SECOND_US
from app.engine.cluster import Bools, Ints
from app.venues.rules.history import PriceSteps, VenuePrices
from app.venues.rules.types import LISTED, MachineType
from app.workbench.venues.setting import on_demand_price

FIGURES = ("overhead_mean", "overhead_median", "saving", "checkpoints", "evictions", "lost_s")
NO_RUNS: dict[str, Any] = {**dict.fromkeys(FIGURES), "starts": 0}
ON_DEMAND = "on-demand"
_BID = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(x?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ComparedJob:
    """The job, its bid as it was written, and the draw. on_demand_boot_us: the boot that an on-demand machine takes."""

    terms: RunTerms
    on_demand_boot_us: int
    grace_us: int
    bid: str
    start_count: int
    seed: int


def check_bid(text: str) -> None:
    """Raise InputError unless a text is on-demand, a multiple of it like 4x, or dollars an hour like 0.067."""
    found = _BID.fullmatch(text)
    if text != ON_DEMAND and not (found and float(found[1]) > 0):
        raise InputError(f"--bid {text!r} is neither on-demand, nor a multiple of it like 4x, nor a price like 0.067")


def bid_of(text: str, on_demand: float) -> float:
    """Return the bid in dollars an hour; the text has been checked."""
    found = _BID.fullmatch(text)
    if not found:
        return on_demand
    return float(found[1]) * on_demand if found[2] else float(found[1])


def compare_policies(
    prices: VenuePrices,
    types: Mapping[str, MachineType],
    span: tuple[int | None, int | None],
    job: ComparedJob,
    progress: Progress,
) -> dict[str, dict[str, Any]]:
    """Return the figures by pool and policy, as JSON holds them. Starts lie in the span: by default the second half.

    Raise InputError if no run under all policies is known to its end.
    """
    found = {}
    for number, (name, steps) in enumerate(prices.pools.items()):
        machine = types.get(name.instance_type, LISTED.get(name.instance_type))
        found[str(name)] = _compared(steps, machine, span, job, number)
        progress(number + 1, len(prices.pools))
    if not any(one["none"]["starts"] for one in found.values()):
        raise InputError(
            "history.too_short: no run is known to its end under every policy; the prices end or have a gap before"
        )
    return found


def _compared(
    steps: PriceSteps, machine: MachineType | None, span: tuple[int | None, int | None], job: ComparedJob, number: int
) -> dict[str, Any]:
    """Return the figures of a pool by policy."""
    from_us, to_us = span
    if to_us is not None and to_us < steps.end_us:
        steps = steps.between(int(steps.at_us[0]), to_us)
    if not len(steps.at_us):
        return dict.fromkeys((*NAMES, "auto"), NO_RUNS)
    middle_us = (int(steps.at_us[0]) + steps.end_us) // 2
    first_us = middle_us if from_us is None else max(from_us, int(steps.at_us[0]))
    on_demand = on_demand_price(machine, steps, first_us)
    starts_us = draw_starts(first_us, steps.end_us - job.terms.work_us - job.terms.boot_us, job, number)
    runs = runs_of(steps, bid_of(job.bid, on_demand), job.terms, starts_us)
    known = np.logical_and.reduce([one.is_known for one in runs.values()])
    found = {name: _judged(one, starts_us, known, job, on_demand) for name, one in runs.items()}
    chosen = NOTICE if job.grace_us >= job.terms.write_us else HAZARD
    return found | {"auto": found[NAMES[chosen]]}


def draw_starts(first_us: int, last_us: int, job: ComparedJob, number: int) -> Ints:
    """Return random starts in order of time, none if there is no room for any."""
    if last_us <= first_us:
        return np.empty(0, np.int64)
    return np.sort(np.random.default_rng([job.seed, number]).integers(first_us, last_us, job.start_count))


def runs_of(steps: PriceSteps, bid: float, terms: RunTerms, starts_us: Ints) -> dict[str, RunOutcomes]:
    """Return the outcomes of the starts by the policy's name."""
    pool = PoolUnderBid(steps.at_us, steps.price, steps.end_us, bid)
    learned = learned_hazard(steps, bid)
    return {name: run_jobs(pool, learned, terms, policy, starts_us) for policy, name in enumerate(NAMES)}


def _judged(one: RunOutcomes, starts_us: Ints, known: Bools, job: ComparedJob, on_demand: float) -> dict[str, Any]:
    """Return the means over the known runs, and of the overhead the median too."""
    if not known.any():
        return NO_RUNS
    base_us = job.terms.work_us + job.on_demand_boot_us
    overhead = ((one.done_at_us - starts_us) / base_us - 1.0)[known]
    saving = 1.0 - one.cost[known] / (ceil(base_us / HOUR_US) * on_demand)
    rows = one.checkpoints[known], one.evictions[known], one.lost_us[known] / SECOND_US
    means = (float(row.mean()) for row in (saving, *rows))
    figures = zip(FIGURES, (float(overhead.mean()), float(np.median(overhead)), *means), strict=True)
    return dict(figures) | {"starts": len(overhead)}


def over_all(answer: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return by policy the means over all runs of all pools."""
    policies = next(iter(answer.values()))
    return {name: _over(one[name] for one in answer.values()) for name in policies}


def _over(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    counted = [one for one in records if one["starts"]]
    weights = [one["starts"] for one in counted]
    names = [name for name in FIGURES if name != "overhead_median"]
    return {name: float(np.average([one[name] for one in counted], weights=weights)) for name in names}
