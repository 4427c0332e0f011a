"""A peer that takes long to answer many messages leaves its place to others, and no offer that it answers is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

import pytest
from peer_jobs import events_by_job, submit

from app.domain.events import CloudCreated, Event, FlavorAdded, JobAwarded, JobDeclined, JobEnded
from app.domain.times import SECOND_US
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.federation import talking
from app.federation.contacts import BROKEN_AFTER, Contact
from app.federation.store import PeerStore
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from benchmarks.peer_open import Peer, fill


async def enter(database: Database, name: str, server: asyncio.Server) -> None:
    """Enter the peer that listens there."""
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    given = {"name": name, "url": url, "cloud": name, "secret": "t", "quota": "{}"}
    await PeerStore(database).add({**given, "objects_url": None, "link_mbit_s": None}, 100)


class HoldingPeer(Peer):
    """A host that holds room for every offer and runs what it is awarded, each after some time.

    `broken`: jobs of which it can say nothing; `hanging`: those of which it says nothing for long.
    """

    def __init__(self, offers_take_s: float, others_take_s: float, broken: Collection[str]) -> None:
        super().__init__()
        self.takes_s, self.broken = {False: offers_take_s, True: others_take_s}, broken
        self.offers, self.waited_s = 0, list[float]()
        self.hanging = set[str]()
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
                await asyncio.sleep(60.0 if job.decode() in self.hanging else self.takes_s[is_award])
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
        pytest.param("slow-at-all", (1.2, 1.2), 3.0, False, id="all messages are slow"),
        pytest.param("slow-at-offers", (1.2, 0.0), 3.0, False, id="offers alone are slow"),
        pytest.param("slow-and-fails", (1.2, 1.2), 3.0, True, id="and one job fails"),
        pytest.param("very-slow", (2.6, 2.6), 4.0, False, id="a message takes half of a talk"),
    ],
)
async def test_a_burst_of_jobs_at_a_slow_peer_is_awarded_offer_by_offer(
    database: Database, database_url: str, name: str, takes: tuple[float, float], answer_s: float, *, fails: bool
) -> None:
    """All offers at once would take longer than each has: those that wait are not written down.

    Held room is awarded as soon as the messages before it are answered, and not after all other offers.
    """
    jobs = {f"{name}-{number}" for number in range(40)}
    broken = {f"{name}-3"} if fails else set[str]()
    far = HoldingPeer(*takes, broken)
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await make_clouds(database, "open")
        await enter(database, name, server)
        for job in jobs:
            await submit(database, "open", job, (name,), answer_us=round(answer_s * SECOND_US), hold_us=30 * SECOND_US)
        found = await answered(database, database_url, {"open": jobs})
    assert awarded(found["open"]) & jobs == jobs - broken
    assert max(far.waited_s) < 4 * sum(takes) + 2, "held room waits for its award"


class FullPeer(Peer):
    """A host that has no room for any offer, and says so at once."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            body = b'{"word": "refused", "reason": "no_capacity"}'
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("other", ["full", "full-last", "paused", "broken"])
async def test_jobs_wait_for_a_slow_peer_whatever_their_other_peer_says(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """The slow peer is waited for: that the other one has places, and would decline, is no reason to go on."""
    far, full, slow = HoldingPeer(1.2, 1.2, ()), FullPeer(), f"slow-beside-{other}"
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    full_server = await asyncio.start_server(full.answer, "127.0.0.1", 0)
    jobs = {f"beside-{other}-{number}" for number in range(40)}
    async with server, full_server:
        await make_clouds(database, "open")
        await enter(database, slow, server)
        await enter(database, other, full_server)
        if other == "paused":
            await PeerStore(database).pause(other, "for a while", "operator")
        peers = (slow, other) if other in {"paused", "full-last"} else (other, slow)
        for job in jobs:
            await submit(database, "open", job, peers, answer_us=3 * SECOND_US, hold_us=30 * SECOND_US)
        broken = {"broken": Contact(BROKEN_AFTER, not_before_s=time.monotonic() + 600)}
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            if other == "broken":
                monkeypatch.setattr(worker.job_keeper.messenger, "contacts", broken)
            async with asyncio.timeout(60):
                while not is_decided(found := await events_by_job(database, "open"), jobs):
                    await worker.job_keeper.keep_jobs()
    assert awarded(found) >= jobs


@pytest.mark.anyio
async def test_a_worker_that_knew_a_peer_as_quick_writes_no_offers_beside_the_one_that_talks_to_it(
    database: Database, database_url: str
) -> None:
    far, jobs = HoldingPeer(1.2, 1.2, ()), {f"of-two-workers-{number}" for number in range(40)}
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    settings = Settings(database_url=database_url, peer_allow_private=True)
    async with server:
        await make_clouds(database, "open")
        await enter(database, "slow-now", server)
        async with open_worker(settings) as one, open_worker(settings) as other, asyncio.timeout(60):
            known = other.job_keeper.messenger.contact("slow-now")
            known.heard()
            known.answered(time.monotonic() - 0.01, is_offer=True, is_word=True)
            known.timed_s -= 10.0
            await submit(database, "open", "first", ("slow-now",), answer_us=3 * SECOND_US, hold_us=30 * SECOND_US)
            await one.job_keeper.keep_jobs()
            for job in jobs:
                await submit(database, "open", job, ("slow-now",), answer_us=3 * SECOND_US, hold_us=30 * SECOND_US)
            while not is_decided(found := await events_by_job(database, "open"), jobs):
                await asyncio.gather(other.job_keeper.keep_jobs(), one.job_keeper.keep_jobs())
    assert awarded(found) >= jobs


def is_decided(found: Mapping[str, list[Event]], jobs: Collection[str]) -> bool:
    """Return True if each of these jobs was awarded or has ended."""
    return all(any(isinstance(one, JobAwarded | JobEnded) for one in found.get(job, ())) for job in jobs)


@pytest.mark.anyio
async def test_clouds_with_jobs_for_one_slow_peer_lose_no_offer(database: Database, database_url: str) -> None:
    """The second cloud's offers are sent beside the first one's, as many as the peer answers in time."""
    far = HoldingPeer(3.0, 3.0, ())
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    counts = {"open": 24, "second": 12}
    jobs = {cloud: {f"{cloud}-of-two-{number}" for number in range(count)} for cloud, count in counts.items()}
    async with server:
        await make_clouds(database, *counts)
        await enter(database, "shared", server)
        for cloud, names in jobs.items():
            for job in names:
                await submit(database, cloud, job, ("shared",), answer_us=5 * SECOND_US, hold_us=30 * SECOND_US)
        found = await answered(database, database_url, jobs)
    for cloud, names in jobs.items():
        assert awarded(found[cloud]) >= names


@pytest.mark.anyio
async def test_peers_that_hang_cost_a_healthy_one_no_offer(database: Database, database_url: str) -> None:
    """Each offer to the healthy peer is answered in its time, however many others never answer."""
    hanging, healthy = HoldingPeer(60.0, 60.0, ()), HoldingPeer(0.0, 0.0, ())
    dead_server = await asyncio.start_server(hanging.answer, "127.0.0.1", 0)
    server = await asyncio.start_server(healthy.answer, "127.0.0.1", 0)
    async with dead_server, server:
        await make_clouds(database, "open")
        await enter(database, "healthy", server)
        for number in range(40):
            await enter(database, f"hangs-{number}", dead_server)
            for job in range(6):
                await submit(database, "open", f"hangs-{number}-{job}", (f"hangs-{number}",), answer_us=3 * SECOND_US)
        wanted = {f"healthy-{number}" for number in range(8)}
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            until_s = time.monotonic() + 1.0
            for job in sorted(wanted):
                while time.monotonic() < until_s:
                    await worker.job_keeper.keep_jobs()
                await submit(database, "open", job, ("healthy",), answer_us=3 * SECOND_US, hold_us=30 * SECOND_US)
                until_s += 1.0
            async with asyncio.timeout(10):
                while not awarded(await events_by_job(database, "open")) >= wanted:
                    await worker.job_keeper.keep_jobs()


@pytest.mark.anyio
async def test_an_answer_that_came_in_time_counts_until_it_is_appended(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its talk has other messages out, and appends it after the time of the offer; turns look at the clock before."""
    monkeypatch.setattr(talking, "_APPEND_S", 3.0)
    far = HoldingPeer(1.0, 0.0, ())
    far.hanging = {"hangs"}
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await make_clouds(database, "open")
        await enter(database, "half", server)
        await submit(database, "open", "in-time", ("half",), answer_us=3 * SECOND_US // 2, hold_us=30 * SECOND_US)
        await submit(database, "open", "hangs", ("half",), answer_us=60 * SECOND_US)
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            async with asyncio.timeout(20):
                while not is_decided(found := await events_by_job(database, "open"), {"in-time"}):
                    await worker.job_keeper.keep_jobs()
    assert awarded(found) >= {"in-time"}


async def make_clouds(database: Database, *names: str) -> None:
    """Make these clouds, if they are not there yet."""
    if "open" not in await Clouds(database).list():
        await fill(database, 0, 1)
    for name in {*names} - {*await Clouds(database).list()}:
        cloud, at_us = Cloud(), round(time.time() * SECOND_US)
        created = CloudCreated(at_us=at_us, policy=Policy(guarantee=Guarantee.NONE))
        cloud_id = await Clouds(database).create(name, cloud.apply(created))
        flavor = FlavorAdded(at_us=at_us, flavor="c1", demand=Resources(1))
        await EventLog(database).append(cloud_id, [cloud.apply(flavor)])


async def answered(
    database: Database, database_url: str, jobs: Mapping[str, Collection[str]]
) -> dict[str, dict[str, list[Event]]]:
    """Return the events of each cloud's jobs, once a worker has had a word on each of these."""
    async with (
        open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker,
        asyncio.timeout(90),
    ):
        while True:
            await worker.job_keeper.keep_jobs()
            found = {cloud: await events_by_job(database, cloud) for cloud in jobs}
            known = [one for cloud, names in jobs.items() for name in names for one in [found[cloud].get(name, [])]]
            if all(any(isinstance(one, JobAwarded | JobDeclined) for one in events) for events in known):
                return found


def awarded(found: Mapping[str, list[Event]]) -> set[str]:
    """Return the jobs that were awarded."""
    return {job for job, events in found.items() if any(isinstance(one, JobAwarded) for one in events)}
