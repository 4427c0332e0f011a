"""Measures a quote after one more observation of a venue whose machines end for lack of capacity.

Method: the observations of drawn instances, a start and what ended each, are told to a fresh `tenure serve` on a
private PostgreSQL, evenly over the pools. A first quote reads all of them. Then one more is told and the same quote
asked, again and again. The processor time is that of the API's process; what PostgreSQL takes is in the elapsed time.

    python -m benchmarks.venue_observations [--observations 150000] [--pools 300]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from app.domain.times import DAY_US, HOUR_US, rfc3339
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.import_wiring import open_venue_imports
from app.processes.wiring import database_url
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv
from app.venues.rules.rates import RevokedBy
from app.venues.rules.types import LISTED
from benchmarks.venue_service import serving, worked_s

_AT_ONCE = 1000
_REPEATS = 9


async def fill(settings: Settings, pools: int, now_us: int) -> None:
    """Import a price of each pool of a venue whose machines end for lack of capacity."""
    rows, at = PriceRows(now_us), rfc3339(now_us - HOUR_US)
    lines = (f"aws,us-east-1,zone-{number},c3.xlarge,Linux/UNIX,{at},0.05,USD" for number in range(pools))
    read_csv([",".join(CSV_COLUMNS), *lines], rows)
    async with open_venue_imports(settings) as imports:
        await imports.run("venue", rows, dict(LISTED), [], RevokedBy.CAPACITY)


def observation(number: int, pools: int, kind: str, at_us: int) -> dict[str, Any]:
    """Return one observation as callers tell it."""
    words = {"provider": "aws", "region": "us-east-1", "instance_type": "c3.xlarge", "product": "Linux/UNIX"}
    at = rfc3339(at_us // 1_000_000 * 1_000_000)
    return {**words, "zone": f"zone-{number % pools}", "id": f"i-{number}", "kind": kind, "at": at}


def drawn(count: int, pools: int, now_us: int) -> Iterator[dict[str, Any]]:
    """Yield a start and an end of each of half as many instances, in the sixty days before."""
    draw = random.Random(1)
    for number in range(count // 2):
        begun_us = now_us - DAY_US - int(draw.random() * 59 * DAY_US)
        yield observation(number, pools, "started", begun_us)
        lived_us = int(draw.expovariate(1 / (12 * HOUR_US)))
        kind = draw.choice(("revoked", "ended"))
        yield observation(number, pools, kind, min(begun_us + lived_us, now_us - HOUR_US))


def tell(client: httpx2.Client, seen: list[dict[str, Any]]) -> None:
    """Tell observations, as many at a time as a request takes."""
    for begin in range(0, len(seen), _AT_ONCE):
        body = {"observations": seen[begin : begin + _AT_ONCE]}
        client.post("/v1/venues/venue/observations", json=body).raise_for_status()


def quote(client: httpx2.Client, process: int) -> tuple[float, float]:
    """Return the milliseconds of a quote over all pools, elapsed and of the API's processor."""
    began, began_s = time.perf_counter(), worked_s(process)
    client.get("/v1/venues/venue/quotes", params={"lifetime_s": 21_600, "limit": 1000}).raise_for_status()
    return 1000 * (time.perf_counter() - began), 1000 * (worked_s(process) - began_s)


def measure(client: httpx2.Client, process: int, count: int, pools: int) -> None:
    """Print what the first quote takes, and each after one more observation."""
    now_us = time.time_ns() // 1000
    tell(client, [*drawn(count, pools, now_us)])
    elapsed, worked = quote(client, process)
    print(f"{count} observations of {pools} pools: first quote {elapsed:.0f} ms, {worked:.0f} ms of a processor")
    found = []
    for number in range(_REPEATS):
        tell(client, [observation(count + number, pools, "started", time.time_ns() // 1000 - 60_000_000)])
        found.append(quote(client, process))
    elapsed, worked = (statistics.median(some) for some in zip(*found, strict=True))
    print(f"  after one more: {elapsed:.0f} ms, {worked:.0f} ms of a processor (medians of {_REPEATS})")


def main() -> None:
    """Measure a venue in a database of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=150_000)
    parser.add_argument("--pools", type=int, default=300)
    parser.add_argument("--port", type=int, default=8396)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-observed-") as name:
        settings = Settings(data_dir=Path(name))
        with database_url(settings) as url:
            upgrade(url)
            asyncio.run(fill(Settings(database_url=url), options.pools, time.time_ns() // 1000))
            with serving(url, options.port) as (client, process):
                measure(client, process, options.observations, options.pools)


if __name__ == "__main__":
    main()
