"""Measures the event log alone on a private server: appends of several sizes, reading, folding, snapshots.

    python -m benchmarks.log [--events 200000]

Every append is one durable transaction (fsync on). Sizes alternate, round by round, and the median round is printed
with the quickest and the slowest. Ratios are taken within one run; absolute figures are this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.values import Basis, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.platform.database.migrating import upgrade
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots

_SIZES = (1, 8, 32, 1000)
_ROUNDS = 7
_RUNNING = 10_000
_PAGE = 10_000


def history() -> Iterator[Recorded]:
    """Yield an endless log that keeps 10,000 instances running."""
    for seq, event in enumerate(_events(), 1):
        yield Recorded(seq, event)


def _events() -> Iterator[Event]:
    yield CloudCreated(at_us=0, policy=Policy())
    yield NodeAdded(at_us=0, node="node-1", capacity=Resources(2 * _RUNNING))
    yield FlavorAdded(at_us=0, flavor="small", demand=Resources(1))
    running: deque[str] = deque()
    basis = Basis(10, 1, 0.01, 3_700_000_000, 0.002)
    at_us = 0
    while True:
        at_us += 1000
        running.append(f"instance-{at_us}")
        yield InstanceStarted(
            at_us=at_us,
            instance_id=running[-1],
            market=Market.SPOT,
            flavor="small",
            node="node-1",
            lifetime_us=3_600_000_000,
            probability=None,
            basis=basis,
        )
        if len(running) >= _RUNNING:
            yield InstanceStopped(at_us=at_us, instance_id=running.popleft())


async def measure_appends(database: Database) -> None:
    """Return events a second by size of the append."""
    log, events = EventLog(database), history()
    cloud_id = await Clouds(database).create("appends", next(events))
    rates: dict[int, list[float]] = {size: [] for size in _SIZES}
    cpu_us: dict[int, list[float]] = {size: [] for size in _SIZES}
    for _ in range(_ROUNDS):
        for size in _SIZES:
            batches = [list(islice(events, size)) for _ in range(max(5, 400 // size))]
            began, cpu_began = perf_counter(), process_time()
            for batch in batches:
                await log.append(cloud_id, batch)
            rates[size].append(size * len(batches) / (perf_counter() - began))
            cpu_us[size].append((process_time() - cpu_began) / len(batches) * 1e6)
    for size in _SIZES:
        low, middle, high = min(rates[size]), median(rates[size]), max(rates[size])
        print(
            f"append of {size:4}: {middle:8,.0f} events/s ({low:,.0f} to {high:,.0f}), "
            f"{middle / median(rates[1]):6.1f} times the single one, {median(cpu_us[size]):6,.0f} us CPU each here"
        )


async def measure_reads(database: Database) -> None:
    """Compare reads whose rows have names with those of binary values without them."""
    named = await _median_us(lambda: database.execute("SELECT %(one)s::int", {"one": 1}))
    bare = await _median_us(lambda: database.execute_directly("SELECT %(one)s::int", {"one": 1}))
    print(f"round trip: {named:.0f} us with a named row, {named / bare:.2f} times a bare one")
    question = "SELECT seq, kind, version, data::text FROM event ORDER BY cloud_id DESC, seq LIMIT 20000"
    named = await _median_us(lambda: database.execute(question, {}), 9)
    bare = await _median_us(lambda: database.execute_directly(question, {}), 9)
    print(f"20,000 events: {named / 1000:.0f} ms with named rows, {named / bare:.2f} times bare ones")


async def _median_us(step: Callable[[], Awaitable[object]], count: int = 500) -> float:
    times = []
    for _ in range(count):
        began = perf_counter()
        await step()
        times.append(perf_counter() - began)
    return median(times) * 1e6


async def measure_restart(database: Database, count: int) -> None:
    """Compare folding a long log with loading its snapshot."""
    log, events = EventLog(database), history()
    cloud_id = await Clouds(database).create("restart", next(events))
    for _ in range(count // _PAGE):
        await log.append(cloud_id, list(islice(events, _PAGE)))
    began = perf_counter()
    cloud, reading_s = await _fold(log, cloud_id)
    fold_s = perf_counter() - began
    await Snapshots(database).save(cloud_id, cloud)
    began = perf_counter()
    loaded = await Snapshots(database).load(cloud_id)
    load_s = perf_counter() - began
    assert loaded is not None
    assert loaded.digest() == cloud.digest()
    print(f"fold of {cloud.seq:,} events: {fold_s:.1f} s, {reading_s:.1f} s of it reading")
    print(f"snapshot of {len(cloud.running):,} running instances: {load_s:.2f} s, 1/{fold_s / load_s:.0f} of the fold")


async def _fold(log: EventLog, cloud_id: int) -> tuple[Cloud, float]:
    cloud, reading_s = Cloud(), 0.0
    while True:
        began = perf_counter()
        tail = await log.tail(cloud_id, cloud.seq, _PAGE)
        reading_s += perf_counter() - began
        if not tail:
            return cloud, reading_s
        cloud.apply_recorded(tail)


async def measure(url: str, count: int) -> None:
    database = Database(url, timeout_s=60)
    await measure_appends(database)
    await measure_restart(database, count)
    await measure_reads(database)
    await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="length of the log that is folded")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-benchmark-") as directory, embedded_url(Path(directory)) as url:
        upgrade(url)
        asyncio.run(measure(url, arguments.events))


if __name__ == "__main__":
    main()
