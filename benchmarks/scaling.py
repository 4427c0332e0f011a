"""Measures how the time and memory of a replay grow with history, nodes and flavors.

    python -m benchmarks.scaling                  # doubles each in turn; some minutes
    python -m benchmarks.scaling --year           # one year of 1,000 nodes, seven flavors
    python -m benchmarks.scaling --one DAYS NODES FLAVORS

The synthetic log has the rate of C-D: 11 starts a day and node, seven in ten on demand. Flavors of 1, 2, 4 ... cores
are asked for alike. Lifetimes are log-normal (sigma 1.5) and fill 60 % of the cores on demand and 25 % as spot, and
declared lifetimes are kept. The replay decides all placements itself. Every size runs in a process of its own, after
compilation. Events are read in chunks, as the worker does; memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import heapq
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from time import perf_counter, process_time

import numpy as np

from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.times import DAY_US
from app.domain.values import Market, Policy, Resources
from app.forecast.compute import Forecaster

CORES = 32
STARTS_A_DAY = 11.0
CHUNK = 20_000
THREADS = 2
BASE = (36, 31, 4)
YEAR = (365, 1000, 7)
POLICY = Policy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=3, type=int, metavar=("DAYS", "NODES", "FLAVORS"))
    parser.add_argument("--year", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        report(*arguments.one)
        return
    days, nodes, flavors = BASE
    factors = (1, 2, 4)
    sizes = [(days * f, nodes, flavors) for f in factors] + [(days, nodes * f, flavors) for f in factors]
    sizes += [(days, nodes, f) for f in (1, 2, 4, 8)]
    for size in [YEAR] if arguments.year else sizes:
        subprocess.run([sys.executable, "-m", __spec__.name, "--one", *map(str, size)], check=True)


def report(days: int, nodes: int, flavors: int) -> None:
    forecaster = Forecaster(POLICY)
    compile_kernels()
    began = perf_counter()
    total, until_us, events = 0, days * DAY_US, log(days, nodes, flavors)
    while chunk := list(islice(events, CHUNK)):
        forecaster.extend(chunk)
        forecaster.fold(chunk[-1].event.at_us)
        total += len(chunk)
    folded, folded_cpu = perf_counter(), process_time()
    with ThreadPoolExecutor(THREADS) as executor:
        table = forecaster.publish(until_us, 1, total, executor=executor, progress=tell)
    done, cpu_s = perf_counter(), process_time() - folded_cpu
    sys.stderr.write("\n")
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worlds = max(replay.most_worlds for replay, _ in forecaster._replays.values())  # noqa: SLF001
    samples = sum(bucket.sample_count for curve in table.curves.values() for bucket in curve.buckets)
    print(
        f"{days:4} days {nodes:5} nodes {flavors} flavors: {total:8} events, made and folded {folded - began:6.1f} s, "
        f"replayed {done - folded:7.2f} s on {THREADS} threads, {cpu_s:7.2f} s of processor time "
        f"({1e6 * cpu_s / total / flavors:6.2f} us an event and flavor), at most {worlds} worlds, "
        f"{samples} samples, peak {mebibytes:.0f} MiB",
        flush=True,
    )


def tell(done: int, count: int) -> None:
    sys.stderr.write(f"\r{done} of {count} flavors ({process_time():.0f} s of processor time)")


def compile_kernels() -> None:
    forecaster = Forecaster(POLICY)
    forecaster.extend(islice(log(2, 2, 1), 100))
    forecaster.publish(DAY_US, 1, 100)


def log(days: int, nodes: int, flavors: int) -> Iterator[Recorded]:
    """Yield the log's events, numbered."""
    return (Recorded(seq, event) for seq, event in zip(count(1), events(days, nodes, flavors), strict=False))


def events(days: int, nodes: int, flavors: int) -> Iterator[Event]:
    yield CloudCreated(at_us=0, policy=POLICY)
    for node in range(nodes):
        yield NodeAdded(at_us=0, node=f"n{node}", capacity=Resources(CORES))
    for flavor in range(flavors):
        yield FlavorAdded(at_us=0, flavor=f"f{flavor}", demand=Resources(1 << min(flavor, 5)))
    ends: list[tuple[int, str]] = []
    for number, start in enumerate(starts(days, nodes, flavors)):
        while ends and ends[0][0] <= start.at_us:
            at_us, instance_id = heapq.heappop(ends)
            yield InstanceStopped(at_us=at_us, instance_id=instance_id)
        yield start
        heapq.heappush(ends, (start.at_us + (start.lifetime_us or 0), f"i{number}"))


def starts(days: int, nodes: int, flavors: int) -> Iterator[InstanceStarted]:
    random = np.random.default_rng(1)
    cores = np.minimum(2 ** np.arange(flavors), CORES).mean()
    mean_us = 0.85 * CORES / (STARTS_A_DAY * cores) * DAY_US
    for number in range(int(days * nodes * STARTS_A_DAY)):
        at_us = int(number * DAY_US / (nodes * STARTS_A_DAY) + random.random() * 1e6)
        lifetime_us = int(random.lognormal(np.log(mean_us) - 1.5**2 / 2, 1.5))
        market = Market.SPOT if random.random() < 0.3 else Market.ON_DEMAND
        flavor = f"f{random.integers(flavors)}"
        yield InstanceStarted(
            at_us=at_us, instance_id=f"i{number}", market=market, flavor=flavor, node="n0", lifetime_us=lifetime_us
        )


if __name__ == "__main__":
    main()
