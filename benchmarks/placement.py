"""Measures where an instance goes, decided durably: OpenStack Placement against Tenure, on one machine in one run.

Method: Placement 16 on PostgreSQL (fsync on), served by waitress in as many processes as there are cores, without any
check of tokens; and one process of Tenure with its own PostgreSQL (fsync on). Both have the same 62 hosts, with room
for all that is started. 32 connections each. One operation of Placement is what Nova's scheduler does for a server: it
asks for allocation candidates, chooses one of them at random, and puts the allocation (what another one has changed
meanwhile is put again, as Nova does, and counts once). One of Tenure is a start, which chooses the node itself. Rounds
of both alternate; the medians are compared. Needs tools/openstack-install.

    python -m benchmarks.placement [--seconds 5] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import psycopg

from app.platform.database.embedded import embedded_url
from benchmarks.throughput import CONNECTIONS, NODES, TOKEN, measure, request, server, start_body, wait_for

PROGRAMS = Path(os.environ.get("TENURE_OPENSTACK", "/opt/tenure-openstack")) / "bin"
CORES, MEMORY_MIB = 60_000, 1 << 29
ASKED = "resources=VCPU:1,MEMORY_MB:512&limit=1000"
VERSION = "placement 1.39"
BAR = 100
_SERVE = """
import os, socket, sys
listening = socket.socket(fileno=int(sys.argv[1]))
for _ in range(int(sys.argv[2]) - 1):
    if os.fork() == 0:
        break
sys.argv = sys.argv[:1]
import waitress
from placement.wsgi.api import application
waitress.serve(application, sockets=[listening], threads=16, ident=None, channel_timeout=300)
"""


@contextmanager
def placement(folder: Path) -> Iterator[int]:
    """Yield the port of a Placement with hosts, behind as many processes as there are cores."""
    with embedded_url(folder / "data") as url:
        configuration = write_configuration(folder, url)
        listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        environment = os.environ | {"OS_PLACEMENT_CONFIG_DIR": str(folder), "PYTHONWARNINGS": "ignore"}
        manage: list[str | Path] = [PROGRAMS / "placement-manage", "--config-file", configuration, "db", "sync"]
        subprocess.run(manage, check=True, env=environment, capture_output=True)
        command: list[str | Path] = [PROGRAMS / "python", "-c", _SERVE, str(listening.fileno()), str(os.cpu_count())]
        serving = subprocess.Popen(
            command, env=environment, stderr=subprocess.DEVNULL, pass_fds=[listening.fileno()], start_new_session=True
        )
        port = int(listening.getsockname()[1])
        try:
            wait_for(port)
            fill(port)
            yield port
        finally:
            os.killpg(serving.pid, 9)
            serving.wait()
            listening.close()


def write_configuration(folder: Path, url: str) -> Path:
    """Write Placement's configuration for a database beside the one of the address."""
    parts = urlsplit(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE placement")
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    path = folder / "placement.conf"
    path.write_text(
        f"[DEFAULT]\nlog_file = {folder}/placement.log\n[api]\nauth_strategy = noauth2\n[placement_database]\n"
        f"connection = postgresql+psycopg2://{parts.username}@/placement?host={host}\nmax_pool_size = 20\n"
    )
    return path


def fill(port: int) -> None:
    """Make the hosts with room for everything."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": VERSION}
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        for number in range(NODES):
            made = client.post("/resource_providers", json={"name": f"node-{number}"}).raise_for_status().json()
            inventories = {"VCPU": {"total": CORES}, "MEMORY_MB": {"total": MEMORY_MIB}}
            body = {"resource_provider_generation": made["generation"], "inventories": inventories}
            client.put(f"/resource_providers/{made['uuid']}/inventories", json=body).raise_for_status()


class Scheduling:
    """Places servers over several connections until the time is over, as Nova's scheduler does."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port, self._until_s = port, time.monotonic() + seconds
        self.latencies: list[float] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        """Place one server after another."""
        connection, draw = HTTPConnection("127.0.0.1", self._port, timeout=120), random.Random()
        while time.monotonic() < self._until_s:
            began_s = time.perf_counter()
            found = self._ask(connection, "GET", f"/allocation_candidates?{ASKED}")
            if found is None or not self._claim(connection, draw.choice(found["allocation_requests"])):
                return
            self.latencies.append(time.perf_counter() - began_s)

    def _claim(self, connection: HTTPConnection, candidate: dict[str, Any]) -> bool:
        who = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
        path, body = f"/allocations/{uuid.uuid4()}", candidate | who
        while (answer := self._ask(connection, "PUT", path, body)) is None and not self.wrong:
            continue
        return answer is not None

    def _ask(self, connection: HTTPConnection, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        """Return what is answered; None for a conflict, and for what is wrong."""
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": VERSION, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status == 409:
            return None
        if answer.status not in {200, 204}:
            self.wrong.append(f"{answer.status} {content[:200]!r}")
            return None
        return json.loads(content) if content else {}


def measure_placement(port: int, seconds: float) -> dict[str, float]:
    """Return how many servers were placed in a second, and the 99th percentile in ms."""
    scheduling = Scheduling(port, seconds)
    threads = [threading.Thread(target=scheduling.run) for _ in range(CONNECTIONS)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if scheduling.wrong or not scheduling.latencies:
        raise SystemExit(f"this run measured something else: {scheduling.wrong[:3]}")
    return rates(scheduling.latencies, time.monotonic() - began_s)


def rates(latencies: list[float], seconds: float) -> dict[str, float]:
    """Return operations a second, and the 99th percentile of their times in ms."""
    return {"per_second": len(latencies) / seconds, "p99_ms": 1e3 * sorted(latencies)[int(0.99 * len(latencies))]}


def make_cloud(port: int, cloud: str) -> None:
    """Give Tenure a cloud with the same hosts."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", headers={"X-Auth-Token": TOKEN}) as client:
        client.post("/clouds", json={"name": cloud}).raise_for_status()
        flavor = {"name": "small", "cores": 1, "memory_mib": 512}
        client.post(f"/clouds/{cloud}/flavors", json=flavor).raise_for_status()
        for number in range(NODES):
            node = {"name": f"node-{number}", "cores": CORES, "memory_mib": MEMORY_MIB}
            client.post(f"/clouds/{cloud}/nodes", json=node).raise_for_status()


def starts(cloud: str, count: int) -> list[bytes]:
    """Return requests of starts."""
    return [request("POST", f"/v1/clouds/{cloud}/instances", start_body(f"{cloud}-{n}")) for n in range(count)]


def report(name: str, runs: list[dict[str, float]]) -> float:
    """Print the median with its spread, and return it."""
    each = [run["per_second"] for run in runs]
    p99 = statistics.median(run["p99_ms"] for run in runs)
    print(f"{name:10} {statistics.median(each):8.1f} a second ({min(each):.1f} to {max(each):.1f}), p99 {p99:.0f} ms")
    return statistics.median(each)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not (PROGRAMS / "placement-manage").exists():
        sys.exit(f"no Placement in {PROGRAMS}: tools/openstack-install")
    theirs, ours = [], []
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name:
        for folder in ("placement", "tenure"):
            (Path(name) / folder).mkdir()
        with placement(Path(name) / "placement") as port, server("service", Path(name) / "tenure") as service:
            measure_placement(port, 2)  # what is loaded at the first request
            for number in range(options.rounds):
                theirs.append(measure_placement(port, options.seconds))
                make_cloud(service.port, f"round-{number}")
                found = measure(service, starts(f"round-{number}", int(20_000 * options.seconds)), options.seconds)
                ours.append({key: float(str(found[key])) for key in ("per_second", "p99_ms")})
    ratio = report("Tenure", ours) / report("Placement", theirs)
    print(f"Tenure / Placement {ratio:.0f} (bar: {BAR})")


if __name__ == "__main__":
    main()
