"""Measures the cost of being watched: processor time for each durable start or stop, with and without.

Method: servers of the same code on one private PostgreSQL, each in a process of its own; one client process
(benchmarks/load.py) with 32 connections drives one after the other, round after round. The processor time of the
server's process is compared: a busy neighbour slows an answer, but takes no processor time from another's account.
Compared are medians of the rounds, and of the ratio to `blind` within each round.

    blind    nothing is counted and nothing is logged
    counted  the metrics of the process
    logged   and a JSON line for each request, to a file: what an installation has

    python -m benchmarks.watching [--seconds 4] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil

from app.platform.settings import Settings
from app.platform.telemetry import metrics
from app.platform.telemetry.logs import start_logging
from app.processes.api import create_app, end_waits
from app.processes.run import ReadyServer, server_config
from benchmarks.ports import free_port
from benchmarks.throughput import TOKEN, Served, make_room, measure, single_requests, wait_for

KINDS = ("blind", "counted", "logged")


def serve(kind: str, port: int) -> None:
    """Run one of the servers in this process."""
    settings = Settings(token_requests_per_s=10**6)  # what it can do, not what one token may
    if kind == "blind":
        for owner, name in ((metrics.RequestMeter, "answered"), (metrics.CloudMeter, "committed")):
            setattr(owner, name, lambda *_: None)
        metrics.APPEND_S.observe = lambda *_: None  # type: ignore[method-assign]
    if kind == "logged":
        start_logging("serve", "info", "json", requests=True)
    app = create_app(settings)
    ReadyServer(server_config(app, settings, port=port), partial(end_waits, app)).run()


@contextmanager
def server(kind: str, directory: Path) -> Iterator[Served]:
    """Yield a server in a process of its own."""
    port = free_port()
    environment = os.environ | {"TENURE_DATA_DIR": str(directory), "TENURE_ADMIN_TOKEN": TOKEN}
    command = [sys.executable, "-m", "benchmarks.watching", "--serve", kind, "--port", str(port)]
    with (directory / f"{kind}.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        wait_for(port)
        yield Served(port, psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", choices=KINDS)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.port)
        return
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name, ExitStack() as servers:
        found = {kind: servers.enter_context(server(kind, Path(name))) for kind in KINDS}
        for number in range(options.rounds):
            for kind, served in found.items():
                cloud = f"{kind}-{number}"
                make_room(served.port, cloud)
                done = measure(served, single_requests(cloud, int(4000 * options.seconds)), options.seconds)
                costs[kind].append(float(str(done["cpu_us"])))
    for kind, values in costs.items():
        ratios = [value / blind for value, blind in zip(values, costs["blind"], strict=True)]
        spread = f"{min(values):.0f} to {max(values):.0f}"
        print(
            f"{kind:8} {statistics.median(values):6.1f} us a request ({spread}); "
            f"to blind {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
