"""A worker that begins with very many attempts that are out; see `benchmarks.peer_service`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from app.domain.events import CloudCreated, Event, FlavorAdded, JobAwarded, JobOffered, JobRequested
from app.domain.jobs import Federate
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.store import PeerStore
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.wiring import database_url
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from benchmarks.peer_parts import Bars
from benchmarks.restart import take_snapshot

_CHUNK = 2000
_LOOK_S = 0.05
_WATCHED_S = 30.0
_LONGEST_S = 120.0
_MEBIBYTE = 2**20
_WORD = json.dumps({"word": "running"}).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_WORD), _WORD)


class Watched(NamedTuple):
    """A worker's beginning: the seconds until its peer heard of it, with those of processor time, and its memory.

    `rate`: the messages a second from then on, of so many `jobs`.
    """

    heard_s: float
    processor_s: float
    jobs: int
    rate: float
    most_bytes: int


class Peer:
    """A host that says of every attempt that it runs, after `takes_s`. `jobs`: those that it was told of, in order."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self._takes_s = takes_s
        self.first_s: float | None = None
        self.jobs = list[str]()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                self.first_s = self.first_s or time.monotonic()
                self.jobs.append(head.split(b"/offers/")[1].split(b"/")[0].decode())
                await asyncio.sleep(self._takes_s)
                writer.write(_ANSWER)
        writer.close()


def out(number: int, at_us: int) -> list[Event]:
    """Return the events of a job whose attempt was awarded and is out for a day."""
    at: dict[str, Any] = {"at_us": at_us, "job": f"job-{number}"}
    terms: dict[str, Any] = {"answer_us": 5 * SECOND_US, "hold_us": 30 * SECOND_US, "margin_us": 60 * SECOND_US}
    terms |= {"flavor": "c1", "count": 1, "lifetime_us": DAY_US}
    return [
        JobRequested(**at, **terms, federate=Federate.ONLY, peers=("far",), attempts=1),
        JobOffered(**at, attempt=1, peer="far"),
        JobAwarded(**at, attempt=1, reclaim_us=at_us + 2 * DAY_US),
    ]


async def fill(database: Database, count: int, port: int) -> None:
    """Make a cloud with so many attempts that are out at the peer, and take a snapshot before the last of them."""
    await check_agreement(database)
    given = {"name": "far", "url": f"http://127.0.0.1:{port}", "cloud": "far", "secret": "t", "quota": "{}"}
    await PeerStore(database).add({**given, "objects_url": None, "link_mbit_s": None}, 1)
    cloud, log, at_us = Cloud(), EventLog(database), round(time.time() * SECOND_US)
    opening = CloudCreated(at_us=at_us, policy=Policy(guarantee=Guarantee.NONE))
    cloud_id = await Clouds(database).create("open", cloud.apply(opening))
    await log.append(cloud_id, [cloud.apply(FlavorAdded(at_us=at_us, flavor="c1", demand=Resources(1)))])
    for first in range(0, count, _CHUNK):
        some = range(first, min(first + _CHUNK, count))
        await log.append(cloud_id, [cloud.apply(event) for number in some for event in out(number, at_us)])
        cloud.commit()
        if count - 2 * _CHUNK <= first < count - _CHUNK:
            await take_snapshot(database)


@contextmanager
def worker(url: str, folder: Path) -> Iterator[psutil.Process]:
    """Run a worker on the database."""
    own = {
        "TENURE_DATABASE_URL": url,
        "TENURE_DATA_DIR": str(folder),
        "TENURE_WORKER_PORT": "0",
        "TENURE_PEER_ALLOW_PRIVATE": "true",
        "TENURE_LOG_LEVEL": "warning",
    }
    process = subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], env=os.environ | own)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


async def watch(url: str, folder: Path, peer: Peer) -> Watched:
    """Return what a worker does from its start on."""
    began = time.monotonic()
    with worker(url, folder) as process:
        most, took_s, until_s = 0, 0.0, began + _LONGEST_S
        while time.monotonic() < until_s:
            await asyncio.sleep(_LOOK_S)
            most = max(most, process.memory_info().rss)
            if peer.first_s is None:
                took_s = sum(process.cpu_times()[:2])
            else:
                until_s = min(until_s, peer.first_s + _WATCHED_S)
    first_s = began + _LONGEST_S if peer.first_s is None else peer.first_s
    return Watched(first_s - began, took_s, len({*peer.jobs}), len(peer.jobs) / _WATCHED_S, most)


async def begin_with(url: str, folder: Path, count: int) -> Watched:
    """Fill a database, and watch a worker that begins on it."""
    peer = Peer()
    server = await asyncio.start_server(peer.answer, "127.0.0.1", 0)
    async with server:
        database = Database(url, timeout_s=60)
        await fill(database, count, server.sockets[0].getsockname()[1])
        await database.close()
        return await watch(url, folder, peer)


def tell_open(bars: Bars, count: int) -> None:
    """Measure a worker with one attempt that is out, and with very many, and print them."""
    found = []
    for many in (1, count):
        with tempfile.TemporaryDirectory(prefix="tenure-open-") as folder:
            settings = Settings(data_dir=Path(folder))
            with database_url(settings) as url:
                upgrade(url)
                found.append(asyncio.run(begin_with(url, Path(folder), many)))
    one, all_ = found
    for many, what in ((1, one), (count, all_)):
        told = f"speaks after {what.heard_s:.1f} s ({what.processor_s:.1f} s of processor time)"
        told += f", sends {what.rate:.0f} messages a second, of {what.jobs:,} jobs in {_WATCHED_S:.0f} s"
        print(f"a worker with {many:,} attempts that are out {told}, {what.most_bytes / _MEBIBYTE:.0f} MiB at most")
    bars.tell(f"a worker begins to speak with {count:,} attempts that are out, after", all_.heard_s, 5, "s")
    bars.tell("it takes more memory", (all_.most_bytes - one.most_bytes) / _MEBIBYTE, 200, "MiB")
