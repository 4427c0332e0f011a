"""A peer that takes long to answer many messages leaves its place to others, and no offer that it answers is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress

import pytest
from peer_jobs import events_by_job, submit

from app.domain.events import Event, JobAwarded, JobDeclined
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
    """A host that holds room for every offer and runs what it is awarded, each after some time.

    `broken`: jobs of which it can say nothing.
    """

    def __init__(self, offers_take_s: float, others_take_s: float, broken: Collection[str]) -> None:
        super().__init__()
        self.takes_s, self.broken = {False: offers_take_s, True: others_take_s}, broken
        self.offers, self.waited_s = 0, list[float]()
        self._held_s = dict[bytes, float]()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            job, is_award = head.split(b"/offers/")[1].split(b"/")[0], b"/award HTTP" in head
            if is_award and job in self._held_s:
                self.waited_s.append(time.monotonic() - self._held_s.pop(job))
            self.offers += not is_award
            if job.decode() in self.broken:
                writer.write(b"HTTP/1.1 503 Broken\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            else:
                await asyncio.sleep(self.takes_s[is_award])
                body = b'{"word": "running"}' if is_award else b'{"word": "held"}'
                told = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                writer.write(told)
                if not is_award:
                    self._held_s[job] = time.monotonic()
        writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "takes", "answer_s", "fails"),
    [
        pytest.param("slow-at-all", (1.2, 1.2), 2.0, False, id="all messages are slow"),
        pytest.param("slow-at-offers", (1.2, 0.0), 2.0, False, id="offers alone are slow"),
        pytest.param("slow-and-fails", (1.2, 1.2), 2.0, True, id="and one job fails"),
        pytest.param("very-slow", (2.6, 2.6), 4.0, False, id="a message takes half of a talk"),
    ],
)
async def test_a_burst_of_jobs_at_a_slow_peer_is_awarded_offer_by_offer(
    database: Database, database_url: str, name: str, takes: tuple[float, float], answer_s: float, *, fails: bool
) -> None:
    """All offers at once would take longer than each has: those that wait are not written down.

    Held room is awarded as soon as the messages before it are answered, and not after all other offers.
    """
    jobs = {f"{name}-{number}" for number in range(64)}
    broken = {f"{name}-3"} if fails else set[str]()
    far = HoldingPeer(*takes, broken)
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        if "open" not in await Clouds(database).list():
            await fill(database, 0, 1)
        await enter(database, name, server)
        for job in jobs:
            await submit(database, "open", job, (name,), answer_us=round(answer_s * SECOND_US), hold_us=30 * SECOND_US)
        async with (
            open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker,
            asyncio.timeout(90),
        ):
            found = dict[str, list[Event]]()
            while not all(any(isinstance(one, JobAwarded | JobDeclined) for one in found.get(job, ())) for job in jobs):
                await worker.job_keeper.keep_jobs()
                found = await events_by_job(database, "open")
    assert {job for job in jobs if any(isinstance(one, JobAwarded) for one in found[job])} == jobs - broken
    assert max(far.waited_s) < 4 * sum(takes) + 2, "held room waits for its award"
