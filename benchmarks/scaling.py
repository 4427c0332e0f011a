"""Measures how the time and memory of a replay grow with history, nodes and flavors.

    python -m benchmarks.scaling                  # doubles each in turn; some minutes
    python -m benchmarks.scaling --year           # one year of 1,000 nodes, seven flavors
    python -m benchmarks.scaling --one DAYS NODES FLAVORS
    python -m benchmarks.scaling --calibrated DAYS NODES FLAVORS

The synthetic log has the rate of C-D: 11 starts a day and node, seven in ten on demand. Flavors of 1, 2, 4 ... cores
are asked for alike. Lifetimes are log-normal (sigma 1.5) and fill 60 % of the cores on demand and 25 % as spot, and
declared lifetimes are kept. The replay decides all placements itself. Every size runs in a process of its own, after
compilation. Events are read in chunks, as the worker does; memory is the peak of the whole process.

`--calibrated` measures the tables of the calibrated forecast. There the log places each instance on the first node with
room and rejects half of the spot starts, so that starts of both kinds are followed. It tells the processor time of the
first table beyond that of folding the log alone, and that of the next table, six hours later.
"""

from __future__ import annotations

import argparse
import heapq
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count, islice
from time import perf_counter, process_time

import numpy as np

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Forecast, Market, Policy, Rejection, Resources
from app.forecast.compute import Forecaster
from app.forecast.replayed import History

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
    parser.add_argument("--calibrated", nargs=3, type=int, metavar=("DAYS", "NODES", "FLAVORS"))
    parser.add_argument("--year", action="store_true")
    arguments = parser.parse_args()
    if arguments.calibrated:
        report_calibrated(*arguments.calibrated)
        return
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


def report_calibrated(days: int, nodes: int, flavors: int) -> None:
    compile_kernels(Forecast.CALIBRATED)
    size, next_us = (days, nodes, flavors), days * DAY_US
    until_us = next_us - 6 * HOUR_US
    folded_s = total_fold_s(size, until_us)
    forecaster = Forecaster(POLICY, {Forecast.CALIBRATED})
    first_s, total = 0.0, 0
    for chunk in chunks(*size, 0, until_us):
        first_s += spent_s(partial(read_chunk, forecaster, chunk))
        total += len(chunk)
    first_s += spent_s(lambda: forecaster.publish(until_us, 1, total))
    forecaster.extend(item for chunk in chunks(*size, until_us, next_us) for item in chunk)
    began = process_time()
    rises = forecaster.publish(next_us, 2, total).rises
    next_s = process_time() - began
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{days:4} days {nodes:5} nodes {flavors} flavors: {total:8} events, folded in {folded_s:.1f} s of processor "
        f"time, first table {first_s - folded_s:.1f} s beyond that, the next one {next_s:.2f} s, peak {mebibytes:.0f} "
        f"MiB, {rises.starts[:, 0].sum() if rises else 0:.0f} starts followed",
        flush=True,
    )


def chunks(days: int, nodes: int, flavors: int, begin_us: int, end_us: int) -> Iterator[list[Recorded]]:
    """Yield the events from `begin_us` to before `end_us`."""
    numbered = (Recorded(seq, event) for seq, event in enumerate(placed(events(days, nodes, flavors), nodes), 1))
    within = (item for item in numbered if begin_us <= item.event.at_us < end_us)
    while chunk := list(islice(within, CHUNK)):
        yield chunk


def total_fold_s(size: tuple[int, int, int], until_us: int) -> float:
    """Return the processor time of folding the log alone."""
    history, found = History(), 0.0
    for chunk in chunks(*size, 0, until_us):
        history.extend(chunk)
        found += spent_s(partial(history.operations, chunk[-1].event.at_us))
    return found


def read_chunk(forecaster: Forecaster, recorded: list[Recorded]) -> None:
    forecaster.extend(recorded)
    forecaster.fold(recorded[-1].event.at_us)


def spent_s(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def placed(found: Iterable[Event], nodes: int) -> Iterator[Event]:
    """Place each start on the first node with room, and reject half of the spot starts and what fits nowhere."""
    free, on, cores = np.full(nodes, CORES), dict[str, tuple[int, int]](), dict[str, int]()
    random = np.random.default_rng(2)
    for event in found:
        told: Event = event
        if isinstance(event, FlavorAdded):
            cores[event.flavor] = event.demand.cores
        elif isinstance(event, InstanceStopped):
            if event.instance_id not in on:
                continue
            node, size = on.pop(event.instance_id)
            free[node] += size
        elif isinstance(event, InstanceStarted):
            size = cores[event.flavor]
            node = int(np.argmax(free >= size))
            if free[node] < size or (event.market is Market.SPOT and random.random() < 0.5):
                told = rejected(event)
            else:
                free[node] -= size
                on[event.instance_id] = node, size
                told = replace(event, node=f"n{node}")
        yield told


def rejected(event: InstanceStarted) -> InstanceRejected:
    return InstanceRejected(
        at_us=event.at_us,
        instance_id=event.instance_id,
        market=event.market,
        flavor=event.flavor,
        reason=Rejection.SLA_UNATTAINABLE,
        lifetime_us=event.lifetime_us if event.market is Market.SPOT else None,
    )


def tell(done: int, count: int) -> None:
    sys.stderr.write(f"\r{done} of {count} flavors ({process_time():.0f} s of processor time)")


def compile_kernels(forecast: Forecast = Forecast.REPLAY) -> None:
    forecaster = Forecaster(POLICY, {forecast})
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
    apart_us = DAY_US / (nodes * STARTS_A_DAY)
    for number in range(int(days * nodes * STARTS_A_DAY)):
        at_us = int(number * apart_us + random.random() * min(apart_us, 1e6))
        lifetime_us = int(random.lognormal(np.log(mean_us) - 1.5**2 / 2, 1.5))
        market = Market.SPOT if random.random() < 0.3 else Market.ON_DEMAND
        flavor = f"f{random.integers(flavors)}"
        yield InstanceStarted(
            at_us=at_us, instance_id=f"i{number}", market=market, flavor=flavor, node="n0", lifetime_us=lifetime_us
        )


if __name__ == "__main__":
    main()
