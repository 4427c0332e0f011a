"""Measures what a decision on a spot start costs, in a small cloud and in a very large one.

    python -m benchmarks.decisions                # 31 nodes, then 10,000: some minutes, most of it to make the logs
    python -m benchmarks.decisions --one NODES    # a cloud of this size alone

The log is that of `benchmarks.scaling` with one flavor of 1 core, six days long, on four fifths of the nodes; the
others have come just now. Lifetimes are drawn log-uniformly from a minute to 30 days, promises (0.01, 0.05, 0.1)
evenly. Each request is decided on the same state by the policy of a new cloud, or by what the line names; nothing is
folded and nothing is written. A time is that of the process on its processor.

    calibrated      the policy of a new cloud
    replay          with the forecast by replays; in the small cloud only
    share           with an `owner_share` of a thousandth; the caller is one of fifty owners, so it has used that up
    longest         starts that take as long as can be promised
    longest, share  such starts under that policy
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import process_time_ns

import numpy as np

from app.admission.decide import decide_start
from app.admission.quote import Quotes
from app.domain.events import CloudCreated, Event, InstanceRejected, InstanceStarted, NodeAdded, PolicyChanged, Recorded
from app.domain.policies import new_policy
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Basis, Forecast, Market, Policy, Resources
from app.domain.wanted import Wanted
from app.engine.cloud import Cloud
from app.forecast.compute import Forecaster
from benchmarks.scaling import CORES, chunks, compile_kernels

DAYS, FLAVORS = 6, 1
SIZES = (31, 10_000)
MOST_REPLAYED = 1000
"""The replays of more nodes take hours."""
COUNT = 2000
OWNERS, SHARE = 50, 0.001
MONTH_US = 30 * DAY_US
PROMISES = (0.01, 0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", type=int, metavar="NODES")
    arguments = parser.parse_args()
    if arguments.one:
        report(arguments.one)
        return
    for nodes in SIZES:
        subprocess.run([sys.executable, "-m", __spec__.name, "--one", str(nodes)], check=True)


def report(nodes: int) -> None:
    cloud, quotes, now_us = standing(nodes)
    spot = sum(one.market is Market.SPOT for one in cloud.running.values())
    print(f"{nodes} nodes, {len(cloud.running)} running instances, {spot} of them spot: us of a processor", flush=True)
    print(f"{'':20} {'median':>8} {'p99':>8} {'most':>8}   refused")
    for name, policy, asked in lines(cloud.policy, is_replayed=nodes <= MOST_REPLAYED):
        cloud.apply(PolicyChanged(at_us=now_us, policy=policy))
        decide = partial(decide_start, cloud, at_us=now_us, quotes=quotes)
        decide(asked[0])
        spent, refused = timed(asked, decide)
        median, p99, most = np.percentile(spent, [50, 99, 100])
        print(f"{name:20} {median:8.1f} {p99:8.1f} {most:8.1f}   {refused} of {len(asked)}", flush=True)


def standing(nodes: int) -> tuple[Cloud, Quotes, int]:
    """Return a cloud as it is at the end of the log, with its table."""
    compile_kernels(Forecast.CALIBRATED)
    now_us = DAYS * DAY_US
    forecasts = {Forecast.CALIBRATED, Forecast.REPLAY} if nodes <= MOST_REPLAYED else {Forecast.CALIBRATED}
    forecaster, cloud = Forecaster(new_policy({}), forecasts), Cloud()
    busy = nodes * 4 // 5
    for chunk in chunks(DAYS, busy, FLAVORS, 0, now_us):
        forecaster.extend(chunk)
        forecaster.fold(chunk[-1].event.at_us)
        cloud.apply_recorded(owned(chunk))
    quotes = forecaster.publish(now_us, 1, cloud.seq)
    for node in range(busy, nodes):
        cloud.apply(NodeAdded(at_us=now_us, node=f"n{node}", capacity=Resources(CORES)))
    cloud.commit()
    return cloud, quotes, now_us


def owned(chunk: Sequence[Recorded]) -> Iterator[Recorded]:
    """Yield the events with the policy of a new cloud, and the spot starts with an owner, a promise and a risk."""
    for item in chunk:
        seq, event = item.seq, item.event
        if isinstance(event, CloudCreated):
            yield Recorded(seq, replace(event, policy=new_policy({})))
        elif isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            probability, random = PROMISES[seq % len(PROMISES)], np.random.default_rng(seq)
            basis = Basis(1, probability=probability, estimated_probability=probability * random.random())
            owner = f"owner-{seq % OWNERS}"
            yield Recorded(seq, replace(event, owner=owner, probability=probability, basis=basis))
        else:
            yield Recorded(seq, event)


def lines(usual: Policy, *, is_replayed: bool) -> Iterator[tuple[str, Policy, list[StartRequest]]]:
    """Yield the name of each line, its policy and its requests."""
    shared, drawn = replace(usual, owner_share=SHARE), requests()
    longest = [replace(one, lifetime_us=usual.longest_lifetime_us or MONTH_US, wanted=Wanted()) for one in drawn]
    yield "calibrated", usual, drawn
    if is_replayed:
        yield "replay", replace(usual, forecast=Forecast.REPLAY), drawn
    yield "share", shared, drawn
    yield "longest", usual, longest
    yield "longest, share", shared, longest


def requests() -> list[StartRequest]:
    random, found = np.random.default_rng(3), []
    for number in range(COUNT):
        lifetime_us = int(np.exp(random.uniform(np.log(60 * SECOND_US), np.log(MONTH_US))))
        flavor, promise = f"f{random.integers(FLAVORS)}", PROMISES[random.integers(len(PROMISES))]
        found.append(StartRequest(f"asked-{number}", Market.SPOT, flavor, lifetime_us, promise, owner="owner-0"))
    return found


def timed(asked: Sequence[StartRequest], decide: Callable[[StartRequest], Sequence[Event]]) -> tuple[list[float], int]:
    """Return the microseconds of a processor that each decision took, and how many were refusals."""
    spent, refused = [], 0
    for request in asked:
        began = process_time_ns()
        *_, decision = decide(request)
        spent.append((process_time_ns() - began) / 1000)
        refused += isinstance(decision, InstanceRejected)
    return spent, refused


if __name__ == "__main__":
    main()
