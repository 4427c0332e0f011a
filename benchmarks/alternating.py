"""Starts and stops at alternating API processes over one database: nothing that was acknowledged may be lost.

Method: two `tenure serve` processes over one private PostgreSQL. Each pair starts an instance at one process, stops it
at the other, and reads it and the cloud at both. Answers that contradict an earlier acknowledgement are counted. At the
end the log is compared with the answers.

    lost     acknowledged starts or stops that the log does not hold, or that were refused as if there were none before
    stale    reads that are older than what was acknowledged before they were asked

    python -m benchmarks.alternating [--pairs 1000]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from app.platform.settings import Settings
from app.processes.wiring import database_url
from benchmarks.ports import free_port

TOKEN = "tnr_benchmark"
CLOUD = "/v1/clouds/alternating"
BEFORE = 3
"""Events before the first pair: the cloud, its node, its flavor."""


@dataclass
class Tally:
    """Counts of lost and stale answers."""

    pairs: int = 0
    lost: int = 0
    stale: int = 0
    wall_s: float = 0.0


@contextmanager
def serving(directory: Path, url: str) -> Iterator[httpx2.Client]:
    """Start an API process on this database and yield a client of it."""
    port = free_port()
    own = {
        "TENURE_DATA_DIR": str(directory),
        "TENURE_DATABASE_URL": url,
        "TENURE_PORT": str(port),
        "TENURE_ADMIN_TOKEN": TOKEN,
        "TENURE_TOKEN_REQUESTS_PER_S": "1000000",
        "TENURE_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "app.cli", "serve"]
    process = subprocess.Popen(command, env=os.environ | own, stdout=subprocess.DEVNULL)
    headers = {"X-Auth-Token": TOKEN}
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
            wait_for(client)
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def wait_for(client: httpx2.Client) -> None:
    """Wait until the process answers."""
    for _ in range(600):
        try:
            if client.get("/healthcheck").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def set_up(client: httpx2.Client) -> None:
    """Create a cloud with room for a few instances."""
    client.post("/v1/clouds", json={"name": "alternating", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post(f"{CLOUD}/nodes", json={"name": "node", "cores": 64}).raise_for_status()
    client.post(f"{CLOUD}/flavors", json={"name": "small", "cores": 1}).raise_for_status()


def alternate(one: httpx2.Client, other: httpx2.Client, pairs: int) -> Tally:
    """Start, read, stop and read `pairs` instances."""
    tally, began = Tally(), time.perf_counter()
    for number in range(pairs):
        here, there = (one, other) if number % 2 else (other, one)
        pair(tally, here, there, f"i-{number}")
    tally.wall_s = time.perf_counter() - began
    for client in (one, other):
        running = client.get(f"{CLOUD}/instances", params={"status": "running"}).json()["instances"]
        tally.lost += len(running)
    kinds = Counter(event["kind"] for event in events(one))
    tally.lost += 2 * pairs - kinds["instance_started"] - kinds["instance_stopped"]
    return tally


def pair(tally: Tally, here: httpx2.Client, there: httpx2.Client, instance: str) -> None:
    """Start one instance here, stop it there, and look at it from both.

    Before the stop only the instance is read, which comes from the log. A read of the cloud would bring the other
    process's state up to date, and the stop would then prove nothing.
    """
    path = f"{CLOUD}/instances/{instance}"
    started = here.post(f"{CLOUD}/instances", json={"id": instance, "market": "on_demand", "flavor": "small"})
    tally.pairs += 1
    tally.lost += started.status_code != 201
    tally.stale += there.get(path).json().get("status") != "running"
    tally.lost += there.delete(path).status_code != 204
    tally.stale += here.get(path).json().get("status") != "stopped"
    for client in (here, there):
        tally.stale += client.get(CLOUD).json()["seq"] != BEFORE + 2 * tally.pairs


def events(client: httpx2.Client) -> Iterator[dict[str, Any]]:
    """Return the whole log."""
    after_seq = 0
    while page := client.get(f"{CLOUD}/events", params={"after_seq": after_seq, "limit": 1000}).json()["events"]:
        yield from page
        after_seq = page[-1]["seq"]


def measure(pairs: int) -> Tally:
    """Run the pairs against two processes on a database of their own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-alternating-")))
        settings = Settings(data_dir=directory, admin_token=TOKEN)
        url = stack.enter_context(database_url(settings))
        one, other = (stack.enter_context(serving(directory, url)) for _ in range(2))
        set_up(one)
        return alternate(one, other, pairs)


def main() -> None:
    """Print the counts; exit with 1 if anything was lost or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    tally = measure(parser.parse_args().pairs)
    rate = tally.pairs / tally.wall_s
    found = f"{tally.lost} lost, {tally.stale} stale reads"
    print(f"{tally.pairs} pairs at alternating processes: {found} ({rate:.0f} pairs/s)")
    sys.exit(1 if tally.lost or tally.stale else 0)


if __name__ == "__main__":
    main()
