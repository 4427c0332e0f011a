"""Measures how fast the log's own statement appends batches of starts and stops, without a service around it.

Four connections append batches that were decided before, each to its own cloud, in a process of its own. Prints one
JSON object.

    python -m benchmarks.appends --data-dir DIR --seconds 5 --batch 200
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from time import monotonic, process_time
from uuid import uuid4

from app.admission.batch import decide_batch
from app.domain.events import CloudCreated, Event, FlavorAdded, NodeAdded, Recorded
from app.domain.requests import StartRequest, StopRequest
from app.domain.values import Market, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

CONNECTIONS = 4
MOST_PER_S = 150
"""Batches that are decided in advance for each second of a connection."""


def batches(size: int, count: int) -> tuple[Recorded, Iterator[list[Recorded]]]:
    """Return the event that creates a cloud, and batches of events that follow: half starts, half stops."""
    cloud = Cloud()
    created = cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    opening: list[Event] = [FlavorAdded(at_us=0, flavor="small", demand=Resources(1))]
    opening += [NodeAdded(at_us=0, node=f"n{number}", capacity=Resources(32)) for number in range(31)]

    def decided() -> Iterator[list[Recorded]]:
        yield [cloud.apply(event) for event in opening]
        for number in range(count):
            names = [f"{number}-{one}" for one in range(size // 2)]
            starts = [StartRequest(name, Market.ON_DEMAND, "small", 3_600_000_000) for name in names]
            batch = decide_batch(cloud, [*starts, *map(StopRequest, names)], {}, number, None)
            cloud.commit()
            yield batch.recorded

    return created, decided()


async def append(log: EventLog, cloud_id: int, rows: Sequence[list[Recorded]], end: float) -> list[float]:
    """Return the seconds that each batch took, of those that are durable when the time is over."""
    took = []
    for recorded in rows:
        begun = monotonic()
        if begun > end:
            break
        await log.append(cloud_id, recorded)
        took.append(monotonic() - begun)
    return took


async def run(url: str, seconds: float, size: int) -> dict[str, object]:
    """Append for the given time."""
    database = Database(url, timeout_s=30, pool_size=CONNECTIONS)
    clouds, log = Clouds(database), EventLog(database)
    work = []
    for number in range(CONNECTIONS):
        created, decided = batches(size, int(seconds * MOST_PER_S))
        name = f"appends-{uuid4()}-{number}"
        await clouds.create(name, created)
        work.append((await clouds.id_of(name), list(decided)))
    begun, cpu_s = monotonic(), process_time()
    done = await asyncio.gather(*(append(log, cloud_id, rows, begun + seconds) for cloud_id, rows in work))
    took_s, cpu_s = monotonic() - begun, process_time() - cpu_s
    await database.close()
    each = sorted(chain.from_iterable(done))
    return {
        "per_second": len(each) / took_s,
        "p99_ms": each[len(each) * 99 // 100] * 1000,
        "cpu_us": cpu_s / len(each) * 1e6,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--batch", type=int, default=200)
    options = parser.parse_args()
    with embedded_url(options.data_dir) as url:
        print(json.dumps(asyncio.run(run(url, options.seconds, options.batch))))


if __name__ == "__main__":
    main()
