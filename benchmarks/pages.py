"""Measures the pages with a long log: first paint, live updates, rows read, with 10,000 and a million events.

Method: for each length of the log, events are decided by the engine and appended through the store (as in
benchmarks/restart.py), spread over three weeks up to now. The history of utilisation is folded from them, and a
snapshot is taken. Then `tenure serve` and `tenure worker` run as processes, and a real Chromium signs in. For every
page two times are measured: the first contentful paint (the browser's own measure) of a fresh load, and the time until
the document is complete. Then starts are posted, and the time from the start's answer until the open page shows it is
measured. `pg_stat_user_tables` tells how many rows of every table were fetched, by indexes and by scans, while all
pages were loaded once. A longer log must not raise that number.

    python -m benchmarks.pages [--events 10000 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
from playwright.sync_api import Page, sync_playwright

from app.admission.batch import decide_batch
from app.domain.events import CloudCreated, Event, FlavorAdded, NodeAdded
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.wiring import database_url
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.utilisation.jobs import Rollup
from app.utilisation.store import UtilisationRows
from benchmarks.restart import steps, take_snapshot

TOKEN = "tnr_benchmark-of-pages"
CHUNK = 2_500
SPAN_US = 21 * 86_400 * 10**6
PLACES = ["", "/promise", "/quotes", "/curves", "/decisions", "/epochs", "/instances/i-20"]
UPDATES = 15
LOADS = 5
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


async def fill(url: str, events: int) -> float:
    """Make the log, its snapshot and its history; return the seconds that folding the history took."""
    database = Database(url, timeout_s=60)
    log, cloud, begin_us = EventLog(database), Cloud(), time.time_ns() // 1000 - SPAN_US
    opening: list[Event] = [CloudCreated(at_us=begin_us, policy=Policy(guarantee=Guarantee.NONE))]
    opening += [NodeAdded(at_us=begin_us, node=f"node-{number:02}", capacity=Resources(128)) for number in range(31)]
    recorded = [
        cloud.apply(event) for event in [*opening, FlavorAdded(at_us=begin_us, flavor="small", demand=Resources(1))]
    ]
    cloud_id = await Clouds(database).create("bench", recorded[0])
    await log.append(cloud_id, recorded[1:])
    number = 0
    while cloud.seq < events:
        at_us = begin_us + SPAN_US * cloud.seq // events
        batch = decide_batch(cloud, steps(number, CHUNK // 2), {}, at_us, None)
        await log.append(cloud_id, batch.recorded)
        cloud.commit()
        number += CHUNK // 2
    await take_snapshot(database)
    began = time.perf_counter()
    folded = await Rollup(UtilisationRows(database)).catch_up_cloud(cloud_id)
    assert folded == cloud.seq
    await database.execute("ANALYZE")
    await database.close()
    return time.perf_counter() - began


@contextmanager
def running(url: str, port: int) -> Iterator[None]:
    """Run the service's two processes."""
    environment = os.environ | {
        "TENURE_DATABASE_URL": url, "TENURE_PORT": str(port), "TENURE_ADMIN_TOKEN": TOKEN,
        "TENURE_LOG_LEVEL": "warning",
    }  # fmt: skip
    command = [sys.executable, "-m", "app.cli"]
    processes = [
        subprocess.Popen([*command, name], env=environment, stdout=subprocess.DEVNULL) for name in ("serve", "worker")
    ]
    try:
        while True:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/healthcheck").raise_for_status()
                break
            except httpx2.HTTPError:
                time.sleep(0.1)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            process.wait(30)


def first_paints(page: Page, base: str, place: str) -> tuple[float, float]:
    """Return the median first contentful paint and the median time to the document, in milliseconds."""
    paints, answers = [], []
    for _ in range(LOADS):
        page.goto(f"{base}/ui/clouds/bench{place}", wait_until="load")
        while not (
            seen := page.evaluate("performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)")
        ):
            time.sleep(0.02)
        paints.append(seen[0])
        answers.append(page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd"))
    return statistics.median(paints), statistics.median(answers)


def updates(page: Page, base: str, client: httpx2.Client) -> list[float]:
    """Return milliseconds from a start's answer until the open page shows it."""
    page.goto(f"{base}/ui/clouds/bench")
    page.wait_for_selector("[data-pulse=live], [data-pulse=fresh]")
    took = []
    for number in range(UPDATES):
        name = f"live-{number}"
        body = {"id": name, "market": "on_demand", "flavor": "small"}
        client.post("/v1/clouds/bench/instances", json=body).raise_for_status()
        began = time.perf_counter()
        page.get_by_role("link", name=name, exact=True).wait_for()
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(1.3)
    return took


def rows_read(connection: psycopg.Connection) -> dict[str, int]:
    """Return the rows fetched from each table so far, by indexes and by whole scans."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    rows = connection.execute("SELECT relname, coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables")
    return {name: int(count) for name, count in rows}


def pages_read(page: Page, base: str, url: str) -> dict[str, int]:
    """Return the rows that one load of every page fetches, by table."""
    with psycopg.connect(url, autocommit=True) as connection:
        time.sleep(1.5)
        before = rows_read(connection)
        for place in PLACES:
            page.goto(f"{base}/ui/clouds/bench{place}")
        page.goto("about:blank")
        time.sleep(1.5)
        after = rows_read(connection)
    return {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)}


def measure(url: str, events: int) -> None:
    """Measure everything for one length of the log."""
    port = 8399
    fold_s = asyncio.run(fill(url, events))
    with running(url, port), sync_playwright() as playwright:
        base = f"http://127.0.0.1:{port}"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
        page.goto(f"{base}/ui/sign-in")
        page.fill("#token", TOKEN)
        page.click("button.strong")
        page.wait_for_url(f"{base}/ui")
        print(f"\n{events:,} events (history folded in {fold_s:.1f} s)")
        for place in PLACES:
            paint_ms, answer_ms = first_paints(page, base, place)
            print(f"  {place or '/':18} first paint {paint_ms:6.0f} ms, answered after {answer_ms:6.0f} ms")
        read = pages_read(page, base, url)
        print("  rows fetched by one load of each page: " + ", ".join(f"{k} {v:,}" for k, v in sorted(read.items())))
        with httpx2.Client(base_url=base, headers={"X-Auth-Token": TOKEN}) as client:
            took = updates(page, base, client)
        print(f"  a start shows after {statistics.median(took):.0f} ms (slowest of {len(took)}: {max(took):.0f} ms)")
        browser.close()


def main() -> None:
    """Measure every length of the log in a database of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 1_000_000])
    for events in parser.parse_args().events:
        with tempfile.TemporaryDirectory(prefix="tenure-pages-") as name:
            settings = Settings(data_dir=Path(name))
            with database_url(settings) as url:
                upgrade(url)
                measure(url, events)


if __name__ == "__main__":
    main()
