"""Measures a restart with a long log: the time until the service answers from the state of one million events.

Method: a million events are decided by the engine and appended through the store (starts and stops on 31 nodes, a few
thousand instances running), a snapshot is taken, and 5,000 more events follow it. Then `tenure serve` is started three
times, and the time from the start of the process to the first answer that holds the log's last seq is measured.
Afterwards the whole log is folded from its first event, and the digests are compared.

    python -m benchmarks.restart [--events 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import httpx2

from app.admission.batch import decide_batch
from app.domain.events import CloudCreated, Event, FlavorAdded, NodeAdded
from app.domain.requests import Operation, StartRequest, StopRequest
from app.domain.values import Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.wiring import database_url
from app.scheduling.appending import Logs, States
from app.scheduling.jobs import Snapshotting
from app.scheduling.log_heads import LogHeads
from app.scheduling.states import MarkedState, catch_up, load_state
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from benchmarks.ports import free_port

T = TypeVar("T")

TOKEN = "tnr_benchmark"
RUNNING = 3000
AFTER_SNAPSHOT = 5000
CHUNK = 5000


def opening() -> list[Event]:
    """Return the events that set the cloud up."""
    nodes = [NodeAdded(at_us=0, node=f"node-{number}", capacity=Resources(128)) for number in range(31)]
    return [
        CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)),
        *nodes,
        FlavorAdded(at_us=0, flavor="small", demand=Resources(1)),
    ]


def steps(first: int, count: int) -> list[Operation]:
    """Yield starts of both markets, and stops of instances started long before."""
    found: list[Operation] = []
    for number in range(first, first + count):
        market = Market.SPOT if number % 3 else Market.ON_DEMAND
        found.append(StartRequest(f"i-{number}", market, "small", 3600 * 10**6))
        if number >= RUNNING:
            found.append(StopRequest(f"i-{number - RUNNING}"))
    return found


async def fill(database: Database, events: int) -> int:
    """Make the log; return the cloud's id."""
    cloud, log = Cloud(), EventLog(database)
    recorded = [cloud.apply(event) for event in opening()]
    cloud_id = await Clouds(database).create("bench", recorded[0])
    await log.append(cloud_id, recorded[1:])
    number = 0
    while cloud.seq < events:
        batch = decide_batch(cloud, steps(number, CHUNK // 2), {}, number, None)
        await log.append(cloud_id, batch.recorded)
        cloud.commit()
        number += CHUNK // 2
        print(f"\r{cloud.seq:,} events", end="", flush=True, file=sys.stderr)
        if events - AFTER_SNAPSHOT <= cloud.seq < events - AFTER_SNAPSHOT + CHUNK:
            await take_snapshot(database)
    print(file=sys.stderr)
    return cloud_id


async def take_snapshot(database: Database) -> None:
    """Take a snapshot as the worker does."""
    log, snapshots = EventLog(database), Snapshots(database)
    states = States(Logs(log, snapshots, LogHeads(database, log)))
    await Snapshotting(Clouds(database), states, snapshots, every_events=1).take_due()


def restart(url: str) -> tuple[float, int]:
    """Return seconds from the start of the process to the answer, and the seq in it."""
    port = free_port()
    environment = os.environ | {
        "TENURE_DATABASE_URL": url,
        "TENURE_PORT": str(port),
        "TENURE_ADMIN_TOKEN": TOKEN,
    }
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "app.cli", "serve"], env=environment, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                answer = httpx2.get(f"http://127.0.0.1:{port}/v1/clouds/bench", headers={"X-Auth-Token": TOKEN})
            except httpx2.TransportError:
                time.sleep(0.02)
                continue
            answer.raise_for_status()
            return time.perf_counter() - began, answer.json()["seq"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


async def compare(database: Database, cloud_id: int) -> tuple[bool, float]:
    """Return True if snapshot and tail give the state of the whole log, and the seconds of folding that."""
    log = EventLog(database)
    loaded = await load_state(cloud_id, log, Snapshots(database))
    began = time.perf_counter()
    folded = MarkedState()
    await catch_up(folded, cloud_id, log)
    return folded.cloud.digest() == loaded.cloud.digest(), time.perf_counter() - began


async def with_database(url: str, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run something with a database of its own."""
    database = Database(url, timeout_s=60)
    try:
        return await work(database)
    finally:
        await database.close()


def main() -> None:
    """Fill, restart, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name:
        settings = Settings(data_dir=Path(name))
        with database_url(settings) as url:
            upgrade(url)
            cloud_id = asyncio.run(with_database(url, lambda database: fill(database, options.events)))
            restarts = [restart(url) for _ in range(3)]
            equal, fold_s = asyncio.run(with_database(url, lambda database: compare(database, cloud_id)))
    seconds = ", ".join(f"{wall_s:.2f}" for wall_s, _ in restarts)
    print(f"{restarts[0][1]:,} events: first answer after {seconds} s (bar: 5)")
    print(f"the whole log folds in {fold_s:.1f} s; state equal to snapshot and tail: {equal}")
    if not equal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
