"""The time that a plan takes: `python -m benchmarks.venues plan`.

Pools are drawn with a fixed seed: 60 days of prices that change every 20 minutes in the mean, with rises. Jobs run for
half an hour to a day and have twice that time. The first plan, which loads compiled code, is not counted; of the
others the median is told, with the machine's load beside it, because whatever else runs there counts too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.assign import PlanLimits
from app.venues.rules.history import PriceSteps
from app.venues.rules.planmaking import PlanQuestion, make_plan
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanPool, SurvivalSource
from app.venues.rules.types import LISTED

WINDOW_US = 60 * DAY_US
SIZES = ((1, 50), (100, 500))
_MINUTES = 20
_TYPES = ("c3.xlarge", "r3.large", "m3.medium", "g2.2xlarge", "d2.8xlarge", "m4.large", "c4.xlarge", "r3.2xlarge")


def type_of(number: int) -> str:
    """Return the machine type of a drawn pool."""
    return _TYPES[number % len(_TYPES)]


def drawn_pools(count: int, seed: int = 0) -> list[PlanPool]:
    """Return pools of some machine types in many zones."""
    draw, found = np.random.default_rng(seed), []
    for number in range(count):
        machine = LISTED[type_of(number)]
        steps = int(WINDOW_US / (_MINUTES * 60_000_000))
        at_us = np.sort(draw.integers(0, WINDOW_US, steps))
        at_us[0] = 0
        level = np.log(0.15 * machine.on_demand) + 0.02 * draw.normal(size=steps).cumsum()
        rises = np.where(draw.random(steps) < 0.01, draw.uniform(1.0, 3.0, steps), 0.0)
        past = PriceSteps(at_us, np.exp(level + rises), WINDOW_US)
        zone = f"zone {number // len(_TYPES) % 9}"
        found.append(PlanPool(zone, machine, SurvivalSource.PRICE_CROSSING, past))
    return found


def drawn_jobs(count: int, seed: int = 0) -> list[PlanJob]:
    """Return jobs of some machine types with deadlines."""
    draw, found = np.random.default_rng(seed), []
    for number in range(count):
        machine, work_us = LISTED[type_of(number)], int(draw.uniform(0.5, 24.0) * HOUR_US)
        times = CheckpointTimes(60_000_000, 60_000_000)
        fields = (machine.compute_units, min(machine.memory_gib, 15.0), WINDOW_US + 2 * work_us, 0.95)
        found.append(PlanJob(f"job-{number}", work_us, *fields, checkpoint=times))
    return found


def measure_plans(repeats: int) -> None:
    """Print the time of plans by size."""
    make_plan(PlanQuestion(drawn_jobs(8), PlanLimits(0.4), 0, WINDOW_US, WINDOW_US), drawn_pools(20))
    for jobs, pools in SIZES:
        question = PlanQuestion(drawn_jobs(jobs), PlanLimits(0.6), 0, WINDOW_US, WINDOW_US)
        places, walls, cpus, method = drawn_pools(pools), list[float](), list[float](), ""
        for _ in range(repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            made = make_plan(question, places)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            method = f"{made.method.value}, gap {made.gap:.4f}"
        load = os.getloadavg()[0]
        print(
            f"{jobs} jobs x {pools} pools: {statistics.median(walls):.2f} s (of {min(walls):.2f} to {max(walls):.2f}), "
            f"{statistics.median(cpus):.2f} s of processor; {method}; load {load:.1f} on {os.cpu_count()} cores"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["plan"])
    parser.add_argument("--repeats", type=int, default=5)
    measure_plans(parser.parse_args().repeats)
