"""A peer that takes long to answer many messages leaves its place to others, and no offer that it answers is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from peer_jobs import events_of, submit

from app.domain.events import JobAwarded, JobDeclined
from app.domain.times import SECOND_US
from app.federation import jobs
from app.federation.store import PeerStore
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.wiring import open_worker
from app.scheduling.store.clouds import Clouds
from benchmarks.peer_open import Peer, fill

JOBS = 160
TAKES_S = 0.3


async def enter(database: Database, name: str, server: asyncio.Server) -> None:
    """Enter the peer that listens there."""
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    given = {"name": name, "url": url, "cloud": name, "secret": "t", "quota": "{}"}
    await PeerStore(database).add({**given, "objects_url": None, "link_mbit_s": None}, 100)


@pytest.mark.anyio
async def test_a_slow_peer_with_many_jobs_keeps_no_other_waiting(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place for talks the other peer is asked long before the slow one has heard everything."""
    monkeypatch.setattr(jobs, "_TALKS_AT_ONCE", 1)
    monkeypatch.setattr(jobs, "_TALK_S", 2 * TAKES_S)
    far, slow = Peer(), Peer(TAKES_S)
    fast_server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    slow_server = await asyncio.start_server(slow.answer, "127.0.0.1", 0)
    async with fast_server, slow_server:
        await fill(database, 0, fast_server.sockets[0].getsockname()[1])
        await enter(database, "slow", slow_server)
        for number in range(JOBS):
            await submit(database, "open", f"slow-{number}", ("slow",), offered=True)
        async with (
            open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker,
            asyncio.timeout(60),
        ):
            while not slow.jobs:
                await worker.job_keeper.keep_jobs()
            await submit(database, "open", "quick", ("far",))
            while "quick" not in far.jobs:
                await worker.job_keeper.keep_jobs()
            assert len({*slow.jobs}) < JOBS / 2
            while len({*slow.jobs}) < JOBS:
                await worker.job_keeper.keep_jobs()


class HoldingPeer(Peer):
    """A host that holds room for every offer, after some time, and runs what it is awarded."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.takes_s, self.offers = takes_s, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            is_award = b"/award HTTP" in head
            self.offers += not is_award
            await asyncio.sleep(self.takes_s)
            body = b'{"word": "running"}' if is_award else b'{"word": "held"}'
            told = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            writer.write(told)
        writer.close()


@pytest.mark.anyio
async def test_a_burst_of_jobs_at_a_slow_peer_is_awarded_offer_by_offer(database: Database, database_url: str) -> None:
    """All offers at once would take 1.8 s, longer than each has: those that wait are not written down."""
    far, count = HoldingPeer(0.6), 40
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        if "open" not in await Clouds(database).list():
            await fill(database, 0, 1)
        await enter(database, "holds", server)
        for number in range(count):
            await submit(database, "open", f"burst-{number}", ("holds",), answer_us=SECOND_US)
        async with (
            open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker,
            asyncio.timeout(60),
        ):
            decided = 0
            while decided < count:
                await worker.job_keeper.keep_jobs()
                found = [await events_of(database, "open", f"burst-{number}") for number in range(count)]
                decided = sum(any(isinstance(one, JobAwarded | JobDeclined) for one in events) for events in found)
    awarded = sum(any(isinstance(one, JobAwarded) for one in events) for events in found)
    assert (awarded, far.offers) == (count, count)
