"""Measures what it costs to fold starts and stops into the state of a cloud: processor time of one event.

Method: the events of a cloud on 62 nodes, in which each start is followed by a stop of the instance that was started
1,000 starts before, so about 1,000 instances run. They are made beforehand. On-demand and spot instances are folded
one by one, as single requests are, and in runs of 200, as batches are; every fold is kept (`commit`). Rounds of all
measurements alternate, and the median of the rounds counts. Ratios are of times within one run, so that they can be
compared between machines. A unit is the time in which json writes and reads an object of six fields.

With `--beside` each round is measured in another checkout too, in turns with this one and with the same Python.

    python -m benchmarks.folding [--rounds 7] [--events 20000] [--beside OTHER_CHECKOUT] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from app.domain.events import CloudCreated, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded
from app.domain.times import HOUR_US, SECOND_US
from app.domain.values import Basis, Market, Policy, Resources
from app.engine.cloud import Cloud

NODES = 62
RUNNING = 1000
RUN = 200
OWNERS = 20
LIFETIMES_US = (HOUR_US // 2, 4 * HOUR_US, 24 * HOUR_US, 72 * HOUR_US, 240 * HOUR_US)
KNOWS_OWNERS = "owner" in InstanceStarted.__dataclass_fields__
"""An older checkout does not."""

Run = list[InstanceStarted | InstanceStopped]


def opened() -> Cloud:
    """Return an empty cloud."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    for number in range(NODES):
        cloud.apply(NodeAdded(at_us=0, node=f"node-{number}", capacity=Resources(32)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.commit()
    return cloud


def start(number: int, market: Market) -> InstanceStarted:
    """Return the start of an instance. A spot instance is promised something and has an owner."""
    given = {
        "at_us": number * SECOND_US,
        "instance_id": f"i-{number}",
        "market": market,
        "flavor": "small",
        "node": f"node-{number % NODES}",
        "lifetime_us": LIFETIMES_US[number % len(LIFETIMES_US)],
    }
    if market is Market.SPOT:
        basis = Basis(10, 1, probability=0.01, estimated_probability=number % 7 / 1000)
        given |= {"probability": 0.01, "basis": basis}
        given |= {"owner": f"owner-{number % OWNERS}"} if KNOWS_OWNERS else {}
    return InstanceStarted(**given)  # type: ignore[arg-type]


def events(market: Market, count: int) -> Iterator[InstanceStarted | InstanceStopped]:
    """Yield starts, and stops of instances that were started `RUNNING` starts before."""
    for number in range(count // 2 + RUNNING):
        yield start(number, market)
        if number >= RUNNING:
            yield InstanceStopped(at_us=number * SECOND_US, instance_id=f"i-{number - RUNNING}")


def singly_s(cloud: Cloud, run: Run) -> float:
    """Return the processor time of folding events one by one, in seconds."""
    begun = time.process_time()
    for event in run:
        cloud.apply(event)
        cloud.commit()
    return time.process_time() - begun


def in_runs_s(cloud: Cloud, run: Run) -> float:
    """Return the processor time of folding events in runs, in seconds."""
    begun = time.process_time()
    for at in range(0, len(run), RUN):
        cloud.apply_run(run[at : at + RUN])
        cloud.commit()
    return time.process_time() - begun


def unit_s(count: int) -> float:
    """Return the processor time of writing and reading so many JSON objects of six fields, in seconds."""
    begun = time.process_time()
    for number in range(count):
        json.loads(json.dumps({"a": number, "b": "i-1", "c": "spot", "d": "small", "e": "node-1", "f": None}))
    return time.process_time() - begun


def measured(count: int) -> dict[str, float]:
    """Return the microseconds of one event, by what is measured."""
    found = {}
    for market in Market:
        folded = [*events(market, count)]
        opening, run = folded[:RUNNING], folded[RUNNING:]
        for road, fold in (("singly", singly_s), ("in runs", in_runs_s)):
            cloud = opened()
            cloud.apply_run(opening)
            cloud.commit()
            found[f"{market.value} {road}"] = fold(cloud, run) / len(run) * 1e6
    found["unit"] = unit_s(count) / count * 1e6
    return found


def measured_in(checkout: Path, count: int) -> dict[str, float]:
    """Return the same of a checkout, measured in a process of its own."""
    command = [sys.executable, __file__, "--once", "--events", str(count)]
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve())}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compared(checkouts: dict[str, Path], rounds: int, count: int) -> dict[str, dict[str, float]]:
    """Return the median of the rounds by checkout and measurement, in microseconds, with the ratios."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(rounds):
        for name, checkout in checkouts.items():
            runs[name].append(measured_in(checkout, count))
    return {name: with_ratios(of_rounds) for name, of_rounds in runs.items()}


def with_ratios(of_rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the medians, and the medians of the ratios within one round."""
    ratios = [
        {
            "singly / in runs, on_demand": one["on_demand singly"] / one["on_demand in runs"],
            "singly / in runs, spot": one["spot singly"] / one["spot in runs"],
            "spot / on_demand, singly": one["spot singly"] / one["on_demand singly"],
            "spot / on_demand, in runs": one["spot in runs"] / one["on_demand in runs"],
            "on_demand in runs, units": one["on_demand in runs"] / one["unit"],
            "spot in runs, units": one["spot in runs"] / one["unit"],
        }
        for one in of_rounds
    ]
    every = [one | more for one, more in zip(of_rounds, ratios, strict=True)]
    return {name: statistics.median(one[name] for one in every) for name in every[0]}


def report(found: dict[str, dict[str, float]]) -> None:
    """Print a line for each measurement and ratio."""
    print(f"{'':28}" + "".join(f"{name:>10}" for name in found))
    for name in found["this"]:
        unit = "" if "/" in name or "units" in name else " us"
        print(f"{name:28}" + "".join(f"{one[name]:10.2f}" for one in found.values()) + unit)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--beside", type=Path, help="another checkout of this repository")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--once", action="store_true", help="measure one round of the code that is found, as JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measured(options.events)))
        return
    checkouts = {"this": Path.cwd()} | ({"beside": options.beside} if options.beside else {})
    found = compared(checkouts, options.rounds, options.events)
    print(json.dumps(found)) if options.json else report(found)


if __name__ == "__main__":
    main()
