"""Measures quotes and plans over many pools in the service: their time, and the memory of the API process.

Method: pools are drawn as in `benchmarks.venues`, with 60 days of prices, and imported into a fresh private PostgreSQL.
`tenure serve` runs as a process. Asked for the first time (cold) it reads and counts; asked again (warm) it has the
answer. Then a model is fitted, as a worker does it, and the same is asked of it. Memory is the process's resident set,
before the first question and after each. The machine's load stands beside, because whatever else runs counts too; the
API's own time of a processor does not depend on it.

    python -m benchmarks.venue_service [--pools 15 500] [--jobs 100]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from app.domain.times import DAY_US, from_rfc3339, rfc3339
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.import_wiring import open_venue_imports
from app.processes.wiring import database_url
from app.venues.refits import VenueRefits
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv
from app.venues.rules.types import LISTED
from app.venues.store.models import VenueModels
from app.venues.store.prices import VenuePriceStore
from benchmarks.venues import WINDOW_US, drawn_jobs, drawn_pools, type_of

TOKEN = "tnr_benchmark-of-venues"
BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")
AT = rfc3339(BEGIN_US + WINDOW_US)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_REPEATS = 15


def price_lines(count: int) -> Iterator[str]:
    """Yield the prices of drawn pools as rows of a CSV; each pool is a zone of its own."""
    yield ",".join(CSV_COLUMNS)
    for number, pool in enumerate(drawn_pools(count)):
        assert pool.past is not None
        rows = [*zip(pool.past.at_us.tolist(), pool.past.price.tolist(), strict=True)]
        for at_us, price in [*rows, (WINDOW_US, rows[-1][1])]:
            words = f"aws,us-east-1,zone-{number},{type_of(number)},Linux/UNIX"
            yield f"{words},{rfc3339(BEGIN_US + at_us)},{price:.6f},USD"


async def fill(settings: Settings, count: int) -> None:
    """Import the pools as a venue whose machines end by price."""
    rows = PriceRows(BEGIN_US + WINDOW_US + DAY_US)
    read_csv(price_lines(count), rows)
    async with open_venue_imports(settings) as imports:
        await imports.run("venue", rows, dict(LISTED), [])


async def refit(url: str) -> None:
    """Fit the venue's model, as a worker does."""
    database = Database(url)
    await VenueRefits(VenuePriceStore(database), VenueModels(database), Locks(database)).refit_venues()
    await database.close()


@contextmanager
def serving(url: str, port: int) -> Iterator[tuple[httpx2.Client, int]]:
    """Run the API and yield a client of it and its process."""
    environment = os.environ | {"TENURE_DATABASE_URL": url, "TENURE_ADMIN_TOKEN": TOKEN, "TENURE_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "app.cli", "serve"], env=environment, stderr=subprocess.DEVNULL)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"X-Auth-Token": TOKEN}, timeout=300) as client:
            while True:
                try:
                    client.get("/healthcheck").raise_for_status()
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            yield client, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def resident_mib(process: int) -> float:
    """Return the memory that a process has now."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE / 2**20


def worked_s(process: int) -> float:
    """Return the time of a processor that a process has used."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def ask(client: httpx2.Client, probability: float) -> tuple[float, str]:
    """Return the milliseconds of a question to all pools, and the source of its answers."""
    began = time.perf_counter()
    query: dict[str, str | float] = {"lifetime_s": 21_600, "probability": probability, "at": AT, "limit": 1000}
    answer = client.get("/v1/venues/venue/quotes", params=query)
    took = 1000 * (time.perf_counter() - began)
    quotes = answer.raise_for_status().json()["quotes"]
    return took, quotes[0]["source"]


def plan_body(id_: str, jobs: int) -> dict[str, Any]:
    """Return a request for a plan of drawn jobs."""
    rows = [
        {
            "id": job.id,
            "work_s": job.work_us / 1e6,
            "compute_units": job.units,
            "memory_mib": int(job.memory_gib * 1024),
            "deadline": rfc3339(BEGIN_US + job.deadline_us // 1_000_000 * 1_000_000),
        }
        for job in drawn_jobs(jobs)
        if job.deadline_us is not None
    ]
    return {"id": id_, "jobs": rows, "venues": ["venue"], "at": AT, "checkpoint": {"write_s": 60, "read_s": 60}}


def measure(url: str, port: int, jobs: int) -> None:
    """Print what a fresh process of the API takes."""
    with serving(url, port) as (client, process):
        print(f"  {resident_mib(process):.0f} MiB before the first question", flush=True)
        asked(client, process, jobs)


def asked(client: httpx2.Client, process: int, jobs: int) -> None:
    """Print the times of quotes and of plans, and the memory."""
    began_s = worked_s(process)
    cold, source = ask(client, 0.95)
    first_s = worked_s(process)
    warm = sorted(ask(client, 0.95)[0] for _ in range(_REPEATS))
    again_ms = 1000 * (worked_s(process) - first_s) / _REPEATS
    other = statistics.median(ask(client, 0.9 + at / 100)[0] for at in range(1, 5))
    print(
        f"  {source}: first quote {cold:.0f} ms; asked again {statistics.median(warm):.0f} ms ({warm[0]:.0f} to "
        f"{warm[-1]:.0f}); another probability {other:.0f} ms; {resident_mib(process):.0f} MiB; of a processor "
        f"{1000 * (first_s - began_s):.0f} ms first, {again_ms:.0f} ms again"
    )
    for count in (1, jobs):
        began, began_s = time.perf_counter(), worked_s(process)
        answer = client.post("/v1/plans", json=plan_body(f"{source}-{count}", count)).raise_for_status().json()
        took, choice = time.perf_counter() - began, answer["choice"]
        print(
            f"  {source}: plan of {count} jobs {took:.2f} s, {worked_s(process) - began_s:.2f} s of a processor "
            f"({choice['method']}, gap {choice['gap']:.4f}); "
            f"{resident_mib(process):.0f} MiB"
        )


def measure_all(folder: Path, pools: int, port: int, jobs: int) -> None:
    """Measure so many pools, by counting and then by the model."""
    with database_url(Settings(data_dir=folder)) as url:
        upgrade(url)
        began = time.perf_counter()
        asyncio.run(fill(Settings(database_url=url), pools))
        print(f"{pools} pools, written in {time.perf_counter() - began:.0f} s; load {os.getloadavg()[0]:.1f}")
        measure(url, port, jobs)
        began = time.process_time()
        asyncio.run(refit(url))
        print(f"  the model was fitted in {time.process_time() - began:.1f} s of a processor")
        measure(url, port, jobs)


def main() -> None:
    """Measure each number of pools in a database of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, nargs="+", default=[15, 500])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--port", type=int, default=8398)
    options = parser.parse_args()
    for count in options.pools:
        with tempfile.TemporaryDirectory(prefix="tenure-venue-") as name:
            measure_all(Path(name), count, options.port, options.jobs)


if __name__ == "__main__":
    main()
