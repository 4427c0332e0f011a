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
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx2
import psutil

from app.platform.settings import Settings
from app.platform.telemetry import metrics
from app.platform.telemetry.logs import start_logging
from app.processes.api import create_app, end_streams
from app.processes.run import ReadyServer, server_config
from benchmarks.throughput import TOKEN, measure, request, start_body, wait_for

KINDS = ("blind", "counted", "logged")


def serve(kind: str, port: int) -> None:
    """Run one of the servers in this process."""
    settings = Settings(token_requests_per_s=10**6)  # what it can do, not what one token may
    if kind == "blind":
        for owner, name in ((metrics.RequestMeter, "answered"), (metrics.CloudMeter, "committed")):
            setattr(owner, name, lambda *_: None)
        metrics.APPEND_S.observe = lambda *_: None
    if kind == "logged":
        start_logging("serve", "info", "json", requests=True)
    app = create_app(settings)
    ReadyServer(server_config(app, settings, port=port), partial(end_streams, app)).run()


@contextmanager
def server(kind: str, directory: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Yield the port of a server, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"TENURE_DATA_DIR": str(directory), "TENURE_ADMIN_TOKEN": TOKEN}
    command = [sys.executable, "-m", "benchmarks.watching", "--serve", kind, "--port", str(port)]
    with (directory / f"{kind}.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        wait_for(port)
        yield port, psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def make_room(port: int, cloud: str) -> None:
    """Create a cloud for each server, so that none waits for another."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", headers={"X-Auth-Token": TOKEN}) as client:
        client.post("/clouds", json={"name": cloud}).raise_for_status()
        client.post(f"/clouds/{cloud}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
        client.post(f"/clouds/{cloud}/nodes", json={"name": "node", "cores": 1000}).raise_for_status()


def requests(cloud: str, prefix: str, count: int) -> list[bytes]:
    """Yield starts, and stops of instances that were started 500 starts before."""
    path, found = f"/v1/clouds/{cloud}/instances", []
    for number in range(count):
        found.append(request("POST", path, start_body(f"{prefix}-{number}")))
        if number >= 500:
            found.append(request("DELETE", f"{path}/{prefix}-{number - 500}"))
    return found


def cost_us(port: int, process: psutil.Process, work: list[bytes], seconds: float) -> float:
    """Return the server's processor time for one request, in microseconds."""
    before = process.cpu_times()
    done = measure(port, work, seconds)
    after = process.cpu_times()
    spent_s = after.user - before.user + after.system - before.system
    return spent_s / int(str(done["requests"])) * 1e6


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
        for kind, (port, _) in found.items():
            make_room(port, kind)
        for number in range(options.rounds):
            for kind, (port, process) in found.items():
                work = requests(kind, f"r{number}", int(4000 * options.seconds))
                costs[kind].append(cost_us(port, process, work, options.seconds))
    for kind, values in costs.items():
        ratios = [value / blind for value, blind in zip(values, costs["blind"], strict=True)]
        spread = f"{min(values):.0f} to {max(values):.0f}"
        print(
            f"{kind:8} {statistics.median(values):6.1f} us a request ({spread}); "
            f"to blind {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
