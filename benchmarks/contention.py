"""Measures durable single starts and stops per second over several API processes that share one cloud and one database.

Method: three API processes (benchmarks/throughput.py) over one private PostgreSQL. One, two, then all three of them are
each driven by a client process of its own (benchmarks/load.py), all on one cloud, so that each append competes with
those of the other processes. Rounds alternate, also between this checkout and another one, whose processes are started
with its own virtual environment; so two versions are compared on one machine at one time. Medians are printed.

    python -m benchmarks.contention [--seconds 3] [--rounds 3] [--connections 16] [--beside OTHER_CHECKOUT]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from benchmarks.load import frame
from benchmarks.ports import free_port
from benchmarks.throughput import NODES, TOKEN, Served, make_room, single_requests, wait_for

PROCESSES = 3
MOST_PER_S = 4000
"""Requests prepared for each second of a client; a run that uses them up measures something else."""


@dataclass(frozen=True, slots=True)
class Contended:
    """One measurement: operations per second of all processes together, their processor time, and answers by status."""

    per_second: float
    p99_ms: float
    cpu_us: float
    statuses: Counter[str]


@contextmanager
def serving(checkout: Path, directory: Path) -> Iterator[Served]:
    """Yield an API process of this checkout. Those of one directory share its database."""
    port = free_port()
    python = checkout / ".venv/bin/python"
    command = [str(python) if python.exists() else sys.executable, "-m", "benchmarks.throughput", "--serve", "service"]
    environment = os.environ | {"TENURE_DATA_DIR": str(directory), "TENURE_ADMIN_TOKEN": TOKEN}
    process = subprocess.Popen([*command, "--port", str(port)], env=environment, cwd=checkout)
    try:
        wait_for(port)
        yield Served(port, psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def drive(served: Served, requests: IO[bytes], seconds: float, connections: int) -> subprocess.Popen[bytes]:
    """Start a client of this process."""
    command = [sys.executable, "-m", "benchmarks.load", "--port", str(served.port), "--seconds", str(seconds)]
    return subprocess.Popen([*command, "--connections", str(connections)], stdin=requests, stdout=subprocess.PIPE)


def measure(served: Sequence[Served], cloud: str, seconds: float, connections: int) -> Contended:
    """Drive these processes at once."""
    make_room(served[0].port, cloud, PROCESSES * NODES)
    before_s = sum(one.cpu_s() for one in served)
    with ExitStack() as stack:
        inputs = []
        for number in range(len(served)):
            requests = single_requests(cloud, int(seconds * MOST_PER_S), f"{cloud}-{number}")
            inputs.append(stack.enter_context(tempfile.TemporaryFile()))
            inputs[-1].write(b"".join(map(frame, requests)))
            inputs[-1].seek(0)
        clients = [drive(one, given, seconds, connections) for one, given in zip(served, inputs, strict=True)]
        results = [json.loads(client.communicate()[0]) for client in clients]
    if any(result["ran_out"] for result in results):
        raise SystemExit("the requests ran out")
    statuses: Counter[str] = Counter()
    for result in results:
        statuses.update(result["statuses"])
    return Contended(
        sum(result["per_second"] for result in results),
        max(result["p99_ms"] for result in results),
        (sum(one.cpu_s() for one in served) - before_s) / sum(result["requests"] for result in results) * 1e6,
        statuses,
    )


def report(name: str, count: int, runs: Sequence[Contended]) -> float:
    """Print the medians of one number of processes, and return the operations per second."""
    rates = [run.per_second for run in runs]
    refused = sum((run.statuses for run in runs), Counter[str]())
    for good in ("201", "204"):
        refused.pop(good, None)
    middle, spread = statistics.median(rates), f"{min(rates):.0f} to {max(rates):.0f}"
    print(
        f"{name:8} {count} processes {middle:7.0f} operations/s ({spread}),"
        f" p99 {statistics.median(run.p99_ms for run in runs):.1f} ms,"
        f" {statistics.median(run.cpu_us for run in runs):.0f} us of processor an operation"
        + (f", refused: {dict(refused)}" if refused else "")
    )
    return middle


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16, help="of each client")
    parser.add_argument("--beside", type=Path, help="another checkout of this repository, with a .venv of its own")
    options = parser.parse_args()
    checkouts = {"this": Path.cwd()} | ({"beside": options.beside} if options.beside else {})
    runs: dict[tuple[str, int], list[Contended]] = {}
    with ExitStack() as stack:
        served = {}
        for name, checkout in checkouts.items():
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-contention-")))
            served[name] = [stack.enter_context(serving(checkout, directory)) for _ in range(PROCESSES)]
        for number in range(options.rounds):
            for count in range(1, PROCESSES + 1):
                for name, processes in served.items():
                    cloud = f"c-{number}-{count}"
                    result = measure(processes[:count], cloud, options.seconds, options.connections)
                    runs.setdefault((name, count), []).append(result)
    rates = {of: report(*of, found) for of, found in sorted(runs.items(), key=lambda item: item[0][::-1])}
    if options.beside:
        for count in range(1, PROCESSES + 1):
            print(f"{count} processes: this / beside {rates['this', count] / rates['beside', count]:.2f}")


if __name__ == "__main__":
    main()
