"""Measures durable starts and stops per second over HTTP, relative to an empty POST and to a bare FastAPI.

Method: one server process (uvicorn, the service's own application and settings, its private PostgreSQL with fsync) that
also has an empty POST endpoint; one client process (benchmarks/load.py) with 32 connections. Rounds of all five
measurements alternate, so that a noisy neighbour hits all of them; the medians of the rounds are compared.

    empty    POST of the same bodies to an endpoint that does nothing, in the service's process, behind its middleware
    bare     the same in a FastAPI application that has nothing but this endpoint
    single   one start or stop a request: each instance is started, later stopped; every answer is durable
    batch    200 operations a request through the batch endpoint
    inserts  the log's statement alone with the events of such requests, over four connections (benchmarks/appends.py)

    python -m benchmarks.throughput [--seconds 5] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import psutil
from fastapi import FastAPI

from app.platform.settings import Settings
from app.processes.api import create_app, end_waits
from app.processes.run import ReadyServer, server_config
from benchmarks.load import frame
from benchmarks.ports import free_port

TOKEN = "tnr_benchmark"
CONNECTIONS = 32
BATCH = 200
NODES = 62
LAG = 1000
"""A start is stopped so many starts later: by then it is answered, also where batches overtake each other."""


@dataclass(frozen=True, slots=True)
class Served:
    """The address of an application and its process; nothing of its database counts here."""

    port: int
    process: psutil.Process

    def cpu_s(self) -> float:
        """Return the processor time that the process has taken."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


def serve(kind: str, port: int) -> None:
    """Run one of the two applications in this process."""
    settings = Settings(token_requests_per_s=10**6)  # what it can do, not what one token may
    app = create_app(settings) if kind == "service" else FastAPI()

    @app.post("/empty")
    async def empty() -> None:
        return None

    end = partial(end_waits, app) if kind == "service" else lambda: None
    ReadyServer(server_config(app, settings, port=port), end).run()


@contextmanager
def server(kind: str, directory: Path) -> Iterator[Served]:
    """Yield an application in a process of its own."""
    port = free_port()
    environment = os.environ | {"TENURE_DATA_DIR": str(directory), "TENURE_ADMIN_TOKEN": TOKEN}
    command = [sys.executable, "-m", "benchmarks.throughput", "--serve", kind, "--port", str(port)]
    process = subprocess.Popen(command, env=environment)
    try:
        wait_for(port)
        yield Served(port, psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def wait_for(port: int) -> None:
    """Wait until the server takes connections."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server did not start")


def request(method: str, path: str, body: object = None) -> bytes:
    """Return one raw request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: {TOKEN}\r\n"
    if content:
        head += "Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def operations(prefix: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield starts, and stops of instances that were started `LAG` starts before."""
    for number in range(count):
        yield "start", f"{prefix}-{number}"
        if number >= LAG:
            yield "stop", f"{prefix}-{number - LAG}"


def start_body(instance: str) -> dict[str, object]:
    """Return the body of a start."""
    return {"id": instance, "market": "on_demand", "flavor": "small", "lifetime_s": 3600}


def single_requests(cloud: str, count: int, prefix: str | None = None) -> list[bytes]:
    """Return each operation as its own request. The ids begin with the prefix, or with the cloud's name."""
    path = f"/v1/clouds/{cloud}/instances"
    return [
        request("POST", path, start_body(instance)) if kind == "start" else request("DELETE", f"{path}/{instance}")
        for kind, instance in operations(prefix or cloud, count)
    ]


def batch_requests(cloud: str, count: int) -> list[bytes]:
    """Return the same operations, 200 a request."""
    steps = [
        {"start": start_body(instance)} if kind == "start" else {"stop": {"id": instance}}
        for kind, instance in operations(cloud, count)
    ]
    chunks = [steps[at : at + BATCH] for at in range(0, len(steps), BATCH)]
    return [request("POST", f"/v1/clouds/{cloud}/batch", {"operations": chunk}) for chunk in chunks]


def measure(
    served: Served, requests: Sequence[bytes], seconds: float, connections: int = CONNECTIONS
) -> dict[str, object]:
    """Run the client once, and add the processor time that each request took the server."""
    command = [sys.executable, "-m", "benchmarks.load", "--port", str(served.port)]
    command += ["--connections", str(connections), "--seconds", str(seconds)]
    before_s = served.cpu_s()
    done = subprocess.run(command, input=b"".join(map(frame, requests)), capture_output=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    statuses: dict[str, int] = json.loads(done.stdout)["statuses"]
    result["cpu_us"] = (served.cpu_s() - before_s) / int(str(result["requests"])) * 1e6
    if result["ran_out"] or set(statuses) - {"200", "201", "204"}:
        raise SystemExit(f"this run measured something else: {result}")
    return result


def measure_inserts(directory: Path, seconds: float) -> dict[str, object]:
    """Measure the database with the same events, without the service."""
    command = [sys.executable, "-m", "benchmarks.appends", "--data-dir", str(directory), "--seconds", str(seconds)]
    done = subprocess.run([*command, "--batch", str(BATCH)], capture_output=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def make_room(port: int, cloud: str, nodes: int = NODES) -> None:
    """Create a cloud with room for everything that one run keeps going, so that every start is accepted.

    Each run has its own: what the one before left running would fill it, and a full cloud measures rejections.
    """
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", headers={"X-Auth-Token": TOKEN}) as client:
        client.post("/clouds", json={"name": cloud}).raise_for_status()
        client.post(f"/clouds/{cloud}/flavors", json={"name": "small", "cores": 1}).raise_for_status()
        for number in range(nodes):
            client.post(f"/clouds/{cloud}/nodes", json={"name": f"node-{number}", "cores": 32}).raise_for_status()


def rounds(
    service: Served, bare: Served, directory: Path, seconds: float, count: int
) -> dict[str, list[dict[str, object]]]:
    """Run all measurements, round after round."""
    volume = int(12_000 * seconds)
    empty = [request("POST", "/empty", start_body(f"i-{number}")) for number in range(2 * volume)]
    results: dict[str, list[dict[str, object]]] = {"empty": [], "bare": [], "single": [], "batch": [], "inserts": []}
    for number in range(count):
        results["empty"].append(measure(service, empty, seconds))
        results["bare"].append(measure(bare, empty, seconds))
        for cloud in (f"single-{number}", f"batch-{number}"):
            make_room(service.port, cloud)
        results["single"].append(measure(service, single_requests(f"single-{number}", volume), seconds))
        results["batch"].append(measure(service, batch_requests(f"batch-{number}", 5 * volume), seconds, 4))
        results["inserts"].append(measure_inserts(directory, seconds))
        print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return results


def report(results: dict[str, list[dict[str, object]]]) -> None:
    """Print the medians, their spread and the ratios."""
    rate = {}
    for name, runs in results.items():
        rates = [float(str(run["per_second"])) * (BATCH if name in {"batch", "inserts"} else 1) for run in runs]
        rate[name] = statistics.median(rates)
        p99 = statistics.median(float(str(run["p99_ms"])) for run in runs)
        spread = f"{min(rates):.0f} to {max(rates):.0f}"
        print(f"{name:8} {rate[name]:9.0f} operations/s ({spread}), p99 {p99:.1f} ms a request{cpu_words(name, runs)}")
    print(f"single / empty {rate['single'] / rate['empty']:.2f} (bar: 0.80)")
    print(f"single / bare  {rate['single'] / rate['bare']:.2f} (bar: 0.50)")
    print(f"batch / single {rate['batch'] / rate['single']:.1f} (bar: 7)")
    print(f"batch / inserts {rate['batch'] / rate['inserts']:.2f} (goal: 0.5)")


def cpu_words(name: str, runs: list[dict[str, object]]) -> str:
    """Return the median of the processor time that an operation took its process."""
    each = statistics.median(float(str(run["cpu_us"])) for run in runs)
    return f", {each / (BATCH if name in {'batch', 'inserts'} else 1):.1f} us of processor an operation"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", choices=["service", "bare"])
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.port)
        return
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name, ExitStack() as servers:
        service, bare = (servers.enter_context(server(kind, Path(name))) for kind in ("service", "bare"))
        report(rounds(service, bare, Path(name), options.seconds, options.rounds))


if __name__ == "__main__":
    main()
