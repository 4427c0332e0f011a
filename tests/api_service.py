"""The service itself for the tests of its interface: the real application behind a real server on a real database."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2

from app.following.page_watch import WatchLimits
from app.platform.settings import Settings
from app.platform.telemetry.logs import REQUESTS
from app.processes.api import create_app, end_waits
from app.processes.import_wiring import ImportedPrices, open_venue_imports
from app.processes.run import ReadyServer, server_config
from app.processes.worker_wiring import open_worker
from app.scheduling.log_heads import HeadPauses
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv
from app.venues.rules.types import MachineType

TOKEN = "tnr_token-of-the-tests"


@dataclass
class Service:
    """A running service, a client with its admin token, and a worker to call."""

    url: str
    settings: Settings
    client: httpx2.Client
    server: ReadyServer

    def last_seq(self, cloud: str) -> int:
        return self.client.get(f"/v1/clouds/{cloud}").json()["seq"]

    def compute_tables(self) -> None:
        """Do what a worker would: every run that waits."""

        async def work() -> None:
            async with open_worker(self.settings) as worker:
                await worker.forecasts.run_pending()

        asyncio.run(work())

    def roll_up(self) -> None:
        """Do what a worker would: bring every history of utilisation up to its log."""

        async def work() -> None:
            async with open_worker(self.settings) as worker:
                await worker.rollup.catch_up()

        # In a thread of its own: a browser that is driven here has this one's event loop.
        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        thread.join()

    def import_prices(self, name: str, lines: Iterable[str]) -> ImportedPrices:
        """Do what `tenure venue import` would, with lines of the documented CSV."""
        rows = PriceRows(int(time.time() * 1e6))
        read_csv([",".join(CSV_COLUMNS), *lines], rows)

        async def work() -> ImportedPrices:
            async with open_venue_imports(self.settings) as imports:
                return await imports.run(name, rows, {"c3.xlarge": MachineType(14.0, 7.5, 0.21)}, [])

        return asyncio.run(work())

    def wait_for_epoch(self, cloud: str, epoch: int) -> None:
        """Until the service has heard of the table."""
        deadline = time.monotonic() + 10
        quotes = f"/v1/clouds/{cloud}/quotes"
        while self.client.get(quotes).json().get("epoch") != epoch:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def running_service(
    database_url: str, pauses: HeadPauses | None = None, watch: WatchLimits | None = None, **changed: object
) -> Iterator[Service]:
    fixed = {"database_timeout_s": 3, "table_wait_s": 5, **changed}
    settings = Settings(database_url=database_url, admin_token=TOKEN, **fixed)
    app = create_app(settings, pauses, watch)
    server = ReadyServer(server_config(app, settings, port=0), partial(end_waits, app))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx2.Client(base_url=url, headers={"X-Auth-Token": TOKEN}, timeout=30) as client:
            yield Service(url, settings, client, server)
    finally:
        server.should_exit = True
        thread.join()


class Recorder:
    """Keeps the lines of requests instead of writing them."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda event, **fields: self.lines.append({"level": level, "event": event, **fields})


@contextmanager
def recorded_requests() -> Iterator[list[dict[str, Any]]]:
    """The lines of the requests that are answered within the block, by any service of this process."""
    recorder = Recorder()
    REQUESTS.open(logging.DEBUG, recorder)
    try:
        yield recorder.lines
    finally:
        REQUESTS.open(logging.CRITICAL + 1, None)
