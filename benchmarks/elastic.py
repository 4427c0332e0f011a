"""Judges the policies of checkpoints against their bars, and sets the paper's case of table 3 beside them.

    python -m benchmarks.elastic policies [PRICES] [--hold]
    python -m benchmarks.elastic table3 [--pause 30]
    python -m benchmarks.elastic table2
    python -m benchmarks.elastic promise [--platforms A-B:7x12 ...]
    python -m benchmarks.elastic advice --url URL --cloud CLOUD

`policies` asks what `tenure cluster policies PRICES` does, and shows each bar beside its figure. With `--hold` the last
price holds through gaps, as in the prototype of the design, whose overheads are bars then: within .3 points.

`table3` rebuilds the paper's case from what its text says: 13 jobs of the mean length, a rise of the price at hour 36,
and spikes above the bid at hours 57, 60 and 63 that hit five of them. Not in the text, and so assumed: eight jobs start
at hour 0 and five at hour 22 (then they run at the spikes, and the last ends at hour 75 on demand); the price is .0141
$/h (the paper's 10.15 $ over 13 jobs of 55 h), .045 for the hour of the rise, and .1 for ten minutes at each spike.
Time is the end of the last job. The costs of spot machines hang on that price; their ratios and the times do not.

`table2` rebuilds the paper's other case (`hybrid`): means over 20 shuffles of the jobs, each beside the paper's figure.

`promise` puts jobs of 1 to 53 h on spot instances that a Tenure cloud promises to evict with probability .01 at most,
beside the load of recorded traces (`promised`): by default the four full pairs. Its lines are over all
platforms together; `hour` and `young` are reckoned on the same leases.

`advice` asks a running service 1,000 times for advice on checkpoints of the cloud's running spot instances, one after
another, each beside a plain read of the instance. The token is in TENURE_TOKEN.

A line with `!` misses its bar; then exit code 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from math import inf
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from app.clusters.rules.policies import NAMES
from app.clusters.rules.runs import RunTerms
from app.domain.times import HOUR_US, SECOND_US, from_rfc3339
from app.venues.rules.history import PriceSteps, VenuePrices
from app.workbench.clusters.comparing import ComparedJob, compare_policies, over_all, runs_of
from app.workbench.venues.opening import read_prices
from benchmarks.hybrid import costs_read_otherwise, table2
from benchmarks.platforms import FULL, Platform, named
from benchmarks.promised import PROMISE, run_promised
from tenure_client import TenureClient

TRACE = Path(__file__).parents[2] / "shared/traces/market/us-east-1-2015.csv.gz"
ON_DEMAND_BOOT_S = 277
BID, PRICE, RISE, SPIKE = 0.067, 0.0141, 0.045, 0.1
STARTS_H = (*[0] * 8, *[22] * 5)
PROTOTYPE = {"none": 0.1621, "hour": 0.1075, "threshold": 0.1111}
STATED = {"none": 13.02, "hour": 10.16, "threshold": 10.15}


class Line(NamedTuple):
    """A figure beside its bar: at most `most`, and at least `least`."""

    name: str
    figure: float
    least: float
    most: float

    @property
    def is_kept(self) -> bool:
        """Tell if the figure keeps its bar."""
        return self.least <= self.figure <= self.most


def paper_terms(pause_s: int = 160) -> RunTerms:
    """Return the terms of table 3."""
    return RunTerms(*(value * SECOND_US for value in (191_407, pause_s, 160, 74, 672)))


def policy_lines(path: Path, *, is_held: bool) -> Iterator[Line]:
    """Yield the bars of the policies on a file of prices."""
    prices = read_prices(path, from_rfc3339("2026-01-01T00:00:00Z")).venue()
    if is_held:
        prices = VenuePrices({name: held(steps) for name, steps in prices.pools.items()}, ())
    job = ComparedJob(paper_terms(), ON_DEMAND_BOOT_S * SECOND_US, 0, "on-demand", 200, 0)
    answer = compare_policies(prices, {}, (None, None), job, lambda *_: None)
    whole = over_all(answer)
    hazard = whole["hazard"]
    for other in ("hour", "threshold"):
        yield Line(f"hazard / {other}", hazard["overhead_mean"] / whole[other]["overhead_mean"], 0.0, 0.75)
    counted = [pool for pool in answer.values() if pool["none"]["starts"]]
    for other, missed in (("hour", 0), ("threshold", 0), ("young", 2)):
        better = sum(pool["hazard"]["overhead_mean"] <= pool[other]["overhead_mean"] for pool in counted)
        yield Line(f"pools with at most the overhead of {other}", better, len(counted) - missed, len(counted))
    yield Line("saving less that of hour", hazard["saving"] - whole["hour"]["saving"], 0.004, 1.0)
    for name, stated in PROTOTYPE.items() if is_held else ():
        yield Line(f"{name}: overhead", whole[name]["overhead_mean"], stated - 0.003, stated + 0.003)


def held(steps: PriceSteps) -> PriceSteps:
    """Return steps whose last known price holds through gaps."""
    places = np.maximum.accumulate(np.where(np.isnan(steps.price), 0, np.arange(len(steps.price))))
    return PriceSteps(steps.at_us, steps.price[places], steps.end_us)


def rebuilt_prices() -> PriceSteps:
    """Return the price of table 3's case. Nothing is known of the time before it."""
    hours = [(0.0, PRICE), (36.0, RISE), (37.0, PRICE)]
    for spike in (57.0, 60.0, 63.0):
        hours += [(spike, SPIKE), (spike + 1 / 6, PRICE)]
    at_us = np.array([int(hour * HOUR_US) for hour, _ in hours], np.int64)
    return PriceSteps(at_us, np.array([price for _, price in hours]), int(at_us[-1]) + 400 * HOUR_US)


def table3_lines(pause_s: int) -> Iterator[Line]:
    """Yield the figures of table 3's case beside the paper's."""
    terms = paper_terms(pause_s)
    starts_us = np.array(STARTS_H, np.int64) * HOUR_US
    base_us = 22 * HOUR_US + terms.work_us + ON_DEMAND_BOOT_S * SECOND_US
    hours = -(-(terms.work_us + ON_DEMAND_BOOT_S * SECOND_US) // HOUR_US)
    yield Line("on demand, $", len(STARTS_H) * hours * BID, 48.17 * 0.98, 48.17 * 1.02)
    runs = runs_of(rebuilt_prices(), BID, terms, starts_us)
    none = runs["none"]
    yield Line("jobs hit under none", float(np.count_nonzero(none.evictions)), 5, 5)
    over = {name: int(one.done_at_us.max()) / base_us - 1.0 for name, one in runs.items()}
    cost = {name: float(one.cost.sum()) for name, one in runs.items()}
    most = {"none": 9.0, "hour": 0.015 if pause_s <= 30 else 0.05, "hazard": over["threshold"]}
    for name in NAMES:
        yield Line(f"{name}: time over on demand", over[name], 0.5 if name == "none" else 0.0, most.get(name, 9.0))
        stated = STATED.get(name, 0.0)
        share = 0.15 if name == "none" else 0.05
        dearest = cost["threshold"] if name == "hazard" else 99.0
        yield Line(f"{name}: $", cost[name], stated * (1 - share), stated * (1 + share) if stated else dearest)
        yield Line(f"{name}: checkpoints", float(runs[name].checkpoints.mean()), 0.0, 999.0)


def table2_lines() -> Iterator[Line]:
    """Yield the row of table 2 on demand and on spot; the paper's figure is in each name."""
    runs = [*table2(range(20))]
    on_demand, spot = (np.mean([pair[at] for pair in runs], axis=0) for at in (0, 1))
    stated = {"on demand": (434, 883, 38_832, 2.349), "spot": (609, 1076, 39_381, 0.234)}
    names = ("sequential wait, s", "parallel wait, s", "total time, s", "cost, $")
    for market, row in (("on demand", on_demand), ("spot", spot)):
        for name, figure, paper in zip(names, row.tolist()[:4], stated[market], strict=True):
            is_barred = (market, name) == ("on demand", "cost, $")
            least, most = (paper * 0.85, paper * 1.15) if is_barred else (0.0, inf)
            yield Line(f"{market}: {name} (paper {paper:g})", figure, least, most)
        yield Line(f"{market}: nodes bought (paper: not stated)", row[4], 0.0, inf)
        yield Line(f"{market}: of these unused (paper: at least 1)", row[5], 0.0, inf)
    for reading, cost in costs_read_otherwise(range(20)).items():
        yield Line(f"on demand: cost, $, {reading}", cost, 0.0, inf)
    yield Line("cost, spot / on demand (paper .0996)", spot[3] / on_demand[3], 0.08, 0.12)
    yield Line("total time, spot / on demand (paper 1.014)", spot[2] / on_demand[2], 0.0, 1.03)


def promise_lines(platforms: Sequence[Platform]) -> Iterator[Line]:
    """Yield the figures of jobs under a promise, and print those of each platform as they come."""
    found = []
    for platform in platforms:
        one = run_promised(platform)
        found.append(one)
        told = " ".join(f"{name} {cost.overhead:.4f} {cost.checkpoints:.2f}" for name, cost in one.costs.items())
        print(
            f"  {platform.platform:14} jobs {one.known}/{one.jobs} chains {one.chained} leases {one.leases} "
            f"evicted {one.evicted} waited {one.waited:.3f} {told}",
            flush=True,
        )
    evicted, leases = sum(one.evicted for one in found), sum(one.leases for one in found)
    yield Line("evicted / leases", evicted / leases, 0.0, PROMISE)
    yield Line(
        "jobs that end, of those submitted", sum(one.known for one in found) / sum(one.jobs for one in found), 1, 1
    )
    for name, over, day in (("promise", 0.005, 0.6), ("hour", 9.0, 99.0), ("young", 9.0, 99.0)):
        weights = [one.known for one in found]
        overhead, checkpoints = np.average([one.costs[name] for one in found], axis=0, weights=weights).tolist()
        yield Line(f"{name}: overhead", overhead, 0.0, over)
        yield Line(f"{name}: checkpoints a day of work", checkpoints, 0.0, day)


def advice_lines(url: str, cloud: str) -> Iterator[Line]:
    """Yield how long advice takes, in milliseconds, as a client on this machine sees it."""
    with TenureClient(url, os.environ.get("TENURE_TOKEN")) as client:
        names = [one.id for one in islice(client.instances(cloud, status="running", market="spot"), 100)]
        asked: dict[str, Callable[[str], object]] = {
            "advice": lambda name: client.checkpoint_advice(cloud, name, 30.0),
            "plain read": partial(client.instance, cloud),
        }
        took_ms: dict[str, list[float]] = {what: [] for what in asked}
        for name in islice(cycle(names), 1000):
            for what, ask in asked.items():
                begun_s = perf_counter()
                ask(name)
                took_ms[what].append((perf_counter() - begun_s) * 1000.0)
    for what, times in took_ms.items():
        most = 20.0 if what == "advice" else inf
        yield Line(f"{what}: p50, ms", float(np.percentile(times, 50)), 0.0, most)
        yield Line(f"{what}: p99, ms", float(np.percentile(times, 99)), 0.0, most)


def lines_of(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield the lines of a question."""
    if asked.question == "policies":
        yield from policy_lines(asked.prices, is_held=asked.hold)
    elif asked.question == "table3":
        yield from table3_lines(asked.pause)
    elif asked.question == "table2":
        yield from table2_lines()
    elif asked.question == "promise":
        yield from promise_lines(asked.platforms)
    else:
        yield from advice_lines(asked.url, asked.cloud)


def main() -> int:
    """Show the lines of a question; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["policies", "table3", "table2", "promise", "advice"])
    parser.add_argument("prices", nargs="?", type=Path, default=TRACE)
    parser.add_argument("--pause", type=int, default=160)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--platforms", type=named, nargs="*", default=FULL, metavar="PAIR:NxC")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--cloud", default="north")
    asked = parser.parse_args()
    lines = list(lines_of(asked))
    for line in lines:
        print(f"{' ' if line.is_kept else '!'} {line.name:48} {line.figure:9.4f}   [{line.least:g}, {line.most:g}]")
    return 0 if all(line.is_kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
