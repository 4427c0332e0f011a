"""Measures the computation of tables: merged worlds against a fork per sample, and epochs by continuation.

    python -m benchmarks.replay [--threads 2] [--forks 1000] [--traces ../shared/traces/eucalyptus]

The log: DS5 on demand and DS6 spot (24 h late) on 31 nodes of 32 cores, decided by the service's engine without an SLA.
1. One table of all flavors of both traces from the whole log, 10,000 samples a flavor, horizon 30 days, on that many
   threads: median of three, with the quickest and the slowest, and the processor time of one.
2. The same samples by a compiled run that copies the state at every injection and runs on until the virtual instance is
   evicted, the horizon or the end; engine and threads are the same. Only the first --forks samples of each flavor are
   run, and the time is scaled up by that. Every sample must come out equal.
3. All epochs of six hours, each going on from the one before; the last table must equal the one of step 1.
Compilation is done before. Absolute times are this machine's; the ratio is of one run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np

from app.admission.decide import decide_start, decide_stop
from app.domain.events import CloudCreated, FlavorAdded, NodeAdded, Recorded
from app.domain.names import node_name
from app.domain.requests import StartRequest
from app.domain.times import DAY_US
from app.domain.values import Clock, Guarantee, Policy, Resources
from app.engine.cloud import POLICY_CODE, Cloud
from app.engine.cluster import (
    FIRST_FIT,
    NEVER_US,
    NO_NODE,
    Cluster,
    Ints,
    fitting_node,
    place,
    release,
)
from app.engine.compiled import compiled
from app.engine.eviction import place_on_demand
from app.forecast.compute import Forecaster
from app.forecast.operations import END, NODE_ADDED, START_ON_DEMAND, START_SPOT, VIRTUAL, Operations
from app.forecast.replay import Replay
from app.forecast.replayed import History
from app.forecast.table import QuantileTable
from app.workbench.workload import flavors, load_workload, operations

TRACES = Path(__file__).parents[2] / "shared" / "traces" / "eucalyptus"
T = TypeVar("T")
POLICY = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)


def main() -> None:
    arguments = read_arguments()
    log = recorded_log(arguments.traces)
    until_us = log[-1].event.at_us + 1
    with ThreadPoolExecutor(arguments.threads) as executor:
        run_epochs(log[:2000], log[1999].event.at_us, executor)  # compiles
        merged_s, table = report_table(log, until_us, executor)
        report_forks(log, until_us, executor, arguments.forks, merged_s)
        report_epochs(log, until_us, executor, table)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forks", type=int, default=1000)
    parser.add_argument("--traces", type=Path, default=TRACES)
    return parser.parse_args()


def recorded_log(traces: Path) -> list[Recorded]:
    """Return the events of the workload, as the scheduler would have logged them."""
    workload = load_workload(traces / "DS5-trace.txt", traces / "DS6-trace.txt", DAY_US)
    cloud = Cloud()
    log = [cloud.apply(CloudCreated(at_us=0, policy=POLICY))]
    log += [cloud.apply(NodeAdded(at_us=0, node=node_name(index), capacity=Resources(32))) for index in range(31)]
    log += [cloud.apply(FlavorAdded(at_us=0, flavor=name, demand=demand)) for name, demand in flavors(workload).items()]
    for operation in operations(workload):
        at_us = operation.at_us or 0
        if isinstance(operation, StartRequest):
            events = decide_start(cloud, operation, at_us, None)
        else:
            events = decide_stop(cloud, operation.instance_id, at_us)
        log += [cloud.apply(event) for event in events]
        cloud.commit()
    return log


def report_table(log: list[Recorded], until_us: int, executor: ThreadPoolExecutor) -> tuple[float, QuantileTable]:
    began = process_time()
    times = [timed(lambda: whole_table(log, until_us, executor)) for _ in range(3)]
    spent, table = [time for time, _ in times], times[0][1]
    print(f"log: {len(log)} events, {len(table.flavors)} flavors, {POLICY.sample_count} samples a flavor")
    processor_s = (process_time() - began) / len(spent)
    print(f"one table from the whole log: {median(spent):.2f} s ({min(spent):.2f} to {max(spent):.2f})", end="")
    print(f", {processor_s:.2f} s of processor time")
    return median(spent), table


def timed(action: Callable[[], T]) -> tuple[float, T]:
    began = perf_counter()
    result = action()
    return perf_counter() - began, result


def whole_table(log: list[Recorded], until_us: int, executor: ThreadPoolExecutor) -> QuantileTable:
    forecaster = Forecaster(POLICY)
    forecaster.extend(log)
    return forecaster.publish(until_us, 1, len(log), executor=executor)


def report_forks(log: list[Recorded], until_us: int, executor: ThreadPoolExecutor, count: int, merged_s: float) -> None:
    """Run step 2 of the method, and report how worlds merged."""
    history = History()
    history.extend(log)
    steps = history.operations(until_us)
    times_us = np.sort(np.random.default_rng(0).integers(0, until_us, count))
    replays = {flavor: new_replay(history, flavor) for flavor in history.flavors}
    clusters = [with_room(history, flavor) for flavor in history.flavors]
    used = steps.counting_only(history.used_resources())
    forks(with_room(history, "c1"), used, np.array([until_us - 1]), until_us)  # compiles
    spent, lasted = timed(lambda: list(executor.map(lambda c: forks(c, used, times_us, until_us), clusters)))
    scaled = spent * POLICY.sample_count / count
    print(f"a fork for every sample: {scaled:.1f} s ({spent:.2f} s for {count} of {POLICY.sample_count} a flavor)")
    print(f"ratio: {scaled / merged_s:.1f}")
    for (flavor, replay), expected in zip(replays.items(), lasted, strict=True):
        replay.advance(used, history.node_count, history.row_count)
        samples = replay.samples(used.at_us, until_us, times_us)
        assert samples.lasted_us.tolist() == expected[expected >= 0].tolist(), f"{flavor}: the samples differ"
        print(f"  {flavor}: {len(used.at_us)} operations, {replay.fork_count} forks, ", end="")
        print(f"at most {replay.most_worlds} worlds at a time")


def new_replay(history: History, flavor: str) -> Replay:
    return Replay(opening(history), 0, history.flavors[flavor][history.used_resources()], POLICY)


def opening(history: History) -> Cluster:
    """Return the beginning of the log, with room for all of its nodes and rows."""
    found, used = history.opening(0), history.used_resources()
    return found._replace(free=found.free[:, used].copy(), demand=found.demand[:, used].copy())


def with_room(history: History, flavor: str) -> Cluster:
    """Return the same state, with its virtual instance of that flavor."""
    cluster = opening(history)
    cluster.demand[VIRTUAL] = history.flavors[flavor][history.used_resources()]
    cluster.is_spot[VIRTUAL], cluster.deadline_us[VIRTUAL] = True, NEVER_US
    return cluster


def forks(cluster: Cluster, steps: Operations, times_us: Ints, until_us: int) -> Ints:
    return fork_each(cluster, steps, times_us, until_us, POLICY.horizon_us, POLICY_CODE[POLICY.eviction_policy])


@compiled
def fork_each(cluster: Cluster, steps: Operations, times_us: Ints, until_us: int, horizon_us: int, policy: int) -> Ints:
    """Return how long the instance injected at each time lasted, -1 if it did not fit."""
    cluster.born[VIRTUAL] = 0
    index, lasted, gone = 0, np.full(times_us.shape[0], -1), np.empty_like(cluster.node_of)
    for sample in range(times_us.shape[0]):
        while index < steps.at_us.shape[0] and steps.at_us[index] <= times_us[sample]:
            lead(cluster, steps, index, policy, gone)
            index += 1
        node = fitting_node(cluster, cluster.demand[VIRTUAL], FIRST_FIT)
        if node != NO_NODE:
            censored_us = min(until_us, times_us[sample] + horizon_us)
            copy = copied(cluster)
            copy.born[VIRTUAL] = copy.born.max() + 1
            place(copy, VIRTUAL, node)
            lasted[sample] = min(fate(copy, steps, index, censored_us, policy, gone), censored_us) - times_us[sample]
    return lasted


@compiled
def copied(cluster: Cluster) -> Cluster:
    return Cluster(
        cluster.free.copy(),
        cluster.is_open.copy(),
        cluster.node_of.copy(),
        cluster.demand.copy(),
        cluster.born.copy(),
        cluster.deadline_us.copy(),
        cluster.is_spot.copy(),
    )


@compiled
def lead(cluster: Cluster, steps: Operations, index: int, policy: int, gone: Ints) -> bool:
    """Lead a cluster through one operation; return True if its virtual instance was evicted."""
    kind, target = steps.kind[index], steps.target[index]
    if kind <= START_SPOT:
        cluster.demand[target] = steps.sizes[steps.size[index]]
        cluster.born[target] = steps.born[index]
        cluster.deadline_us[target] = steps.deadline_us[index]
        cluster.is_spot[target] = kind == START_SPOT
    elif kind == NODE_ADDED:
        cluster.is_open[target] = True
        cluster.free[target] = steps.sizes[steps.size[index]]
    node, count = NO_NODE, 0
    if kind == START_SPOT:
        node = fitting_node(cluster, cluster.demand[target], FIRST_FIT)
    elif kind == START_ON_DEMAND:
        node, count = place_on_demand(cluster, cluster.demand[target], steps.at_us[index], FIRST_FIT, policy, gone)
    elif kind == END and cluster.node_of[target] != NO_NODE:
        release(cluster, target)
    is_evicted = False
    for i in range(count):
        release(cluster, gone[i])
        is_evicted |= gone[i] == VIRTUAL
    if node != NO_NODE:
        place(cluster, target, node)
    return is_evicted


@compiled
def fate(cluster: Cluster, steps: Operations, index: int, censored_us: int, policy: int, gone: Ints) -> int:
    """Return the time of the virtual instance's eviction, or NEVER_US."""
    while index < steps.at_us.shape[0] and steps.at_us[index] <= censored_us:
        if lead(cluster, steps, index, policy, gone):
            return int(steps.at_us[index])
        index += 1
    return NEVER_US


def report_epochs(log: list[Recorded], until_us: int, executor: ThreadPoolExecutor, table: QuantileTable) -> None:
    spent, (count, last) = timed(lambda: run_epochs(log, until_us, executor))
    assert last.to_bytes() == table.to_bytes(), "continued and computed anew, the tables differ"
    print(f"{count} epochs of six hours, each continued: {spent:.1f} s, {1000 * spent / count:.0f} ms each")


def run_epochs(log: list[Recorded], until_us: int, executor: ThreadPoolExecutor) -> tuple[int, QuantileTable]:
    forecaster, count = Forecaster(POLICY), 0
    forecaster.extend(log)
    for due_us in range(POLICY.recompute_every_us, until_us, POLICY.recompute_every_us):
        forecaster.publish(due_us, count, 0, executor=executor)
        count += 1
    return count + 1, forecaster.publish(until_us, count, len(log), executor=executor)


if __name__ == "__main__":
    main()
