"""A worker that finds a lease over asks the host for its last word before it takes the job back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from peer_jobs import events_by_job

from app.domain.errors import LogUnavailable
from app.domain.events import JobAwarded, JobEnded, JobOffered, JobRequested, Recorded
from app.domain.jobs import AwayEnd, Federate
from app.domain.times import SECOND_US
from app.federation import contacts
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from benchmarks.peer_open import Peer, fill


class FinishedPeer(Peer):
    """A host where every attempt has finished. It answers after a time, and takes some messages no more at first."""

    word = "finished"
    takes_s = 0.0
    refuses = 0
    broken = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.jobs.append(head.split(b"/offers/")[1].split(b"/")[0].decode())
        if self.jobs[-1] == self.broken:
            writer.write(b"HTTP/1.1 503 Broken\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        await asyncio.sleep(self.takes_s)
        self.refuses -= 1
        status, body = (b"429 Slow\r\nRetry-After: 1", b"{}") if self.refuses >= 0 else (b"200 OK", self._said())
        writer.write(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        writer.close()

    def _said(self) -> bytes:
        return json.dumps({"word": self.word}).encode()


async def left_alone(database: Database, job: str) -> None:
    """Write the log of a job that was awarded, and whose lease was over a minute ago."""
    at_us = round(time.time() * SECOND_US)
    cloud_id, log = await Clouds(database).id_of("open"), EventLog(database)
    terms = {"answer_us": 5 * SECOND_US, "hold_us": 5 * SECOND_US, "margin_us": SECOND_US, "attempts": 1}
    asked = JobRequested(
        at_us=at_us,
        job=job,
        flavor="c1",
        count=1,
        lifetime_us=5 * SECOND_US,
        federate=Federate.ONLY,
        peers=("far",),
        **terms,  # type: ignore[arg-type]
    )
    offered = JobOffered(at_us=at_us, job=job, attempt=1, peer="far")
    awarded = JobAwarded(at_us=at_us, job=job, attempt=1, reclaim_us=at_us - 60 * SECOND_US)
    first = await log.last_seq(cloud_id) + 1
    await log.append(cloud_id, [Recorded(seq, one) for seq, one in enumerate((asked, offered, awarded), first)])


@pytest.mark.anyio
@pytest.mark.parametrize(("word", "end"), [("finished", AwayEnd.COMPLETED), ("running", AwayEnd.RECLAIMED)])
async def test_the_host_has_the_last_word_on_what_nobody_asked_about(
    database: Database, database_url: str, word: str, end: AwayEnd
) -> None:
    far = FinishedPeer()
    far.word = word
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await begin(database, server.sockets[0].getsockname()[1])
        await left_alone(database, f"left-{word}")
        ended = await ends_of(database, database_url, f"left-{word}")
    assert far.jobs, "it was asked"
    assert ended[0].end is end


@pytest.mark.anyio
@pytest.mark.parametrize(("takes_s", "refuses"), [(2.5, 0), (0.0, 3)])
async def test_the_host_may_take_its_time_or_take_some_messages_later(
    database: Database, database_url: str, takes_s: float, refuses: int
) -> None:
    """It is waited for as for any answer, and one that takes no more messages for now has not failed."""
    far = FinishedPeer()
    far.takes_s, far.refuses = takes_s, refuses
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    jobs = [f"left-{number}-{refuses}" for number in range(4)]
    async with server:
        await begin(database, server.sockets[0].getsockname()[1])
        for job in jobs:
            await left_alone(database, job)
        await ends_of(database, database_url, *jobs)
    assert await first_ends(database, jobs) == dict.fromkeys(jobs, AwayEnd.COMPLETED)


@pytest.mark.anyio
async def test_a_failure_about_one_job_takes_no_other_back(database: Database, database_url: str) -> None:
    """It comes at once, before any of the answers about the others."""
    far = FinishedPeer()
    far.takes_s, far.broken = 1.0, "left-7-broken"
    jobs = {f"left-{number}-broken" for number in range(40)}
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await begin(database, server.sockets[0].getsockname()[1])
        for job in jobs:
            await left_alone(database, job)
        await ends_of(database, database_url, *jobs)
    assert await first_ends(database, jobs) == dict.fromkeys(jobs, AwayEnd.COMPLETED) | {far.broken: AwayEnd.RECLAIMED}


@pytest.mark.anyio
async def test_a_worker_that_does_not_talk_to_the_host_takes_nothing_back(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears nothing, and must not take that for silence, however long the other one's talks take."""
    monkeypatch.setattr(contacts, "_SILENT_FOR_S", 2.0)
    far = FinishedPeer()
    far.takes_s = 1.0
    jobs = {f"left-{number}-for-two" for number in range(80)}
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    settings = Settings(database_url=database_url, peer_allow_private=True)
    async with server:
        await begin(database, server.sockets[0].getsockname()[1])
        for job in jobs:
            await left_alone(database, job)
        async with open_worker(settings) as one, open_worker(settings) as other, asyncio.timeout(60):
            while not all((await first_ends(database, jobs)).values()):
                await asyncio.gather(one.job_keeper.keep_jobs(), other.job_keeper.keep_jobs())
    assert await first_ends(database, jobs) == dict.fromkeys(jobs, AwayEnd.COMPLETED)


class SlowAgainPeer(FinishedPeer):
    """A host that answers the second question about every other job after a second."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        job = (await reader.readuntil(b"\r\n\r\n")).split(b"/offers/")[1].split(b"/")[0].decode()
        self.jobs.append(job)
        await asyncio.sleep(float(self.jobs.count(job) == 2 and job.endswith(("0", "2", "4", "6", "8"))))
        body = self._said()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()


@pytest.mark.anyio
async def test_words_that_were_lost_with_the_database_take_nothing_back(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first words are not appended. They are asked for again, and some come later than others."""
    far, append, jobs = SlowAgainPeer(), EventLog.append, [f"left-lost-{number}" for number in range(8)]
    lost = list[int]()

    async def failing(self: EventLog, cloud_id: int, recorded: Sequence[Recorded], *rest: Any) -> Any:
        if not lost and any(isinstance(one.event, JobEnded) for one in recorded):
            lost.append(len(recorded))
            raise LogUnavailable("the database went away")
        return await append(self, cloud_id, recorded, *rest)

    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await begin(database, server.sockets[0].getsockname()[1])
        for job in jobs:
            await left_alone(database, job)
        monkeypatch.setattr(EventLog, "append", failing)
        settings = Settings(database_url=database_url, peer_allow_private=True)
        async with open_worker(settings) as worker, asyncio.timeout(30):
            while not all((await first_ends(database, jobs)).values()):
                with suppress(BaseExceptionGroup):
                    await worker.job_keeper.keep_jobs()
    assert lost
    assert await first_ends(database, jobs) == dict.fromkeys(jobs, AwayEnd.COMPLETED)


@pytest.mark.anyio
async def test_a_host_that_does_not_answer_is_not_waited_for(database: Database, database_url: str) -> None:
    await begin(database, 1)
    await left_alone(database, "left-dead")
    [ended, *_] = await ends_of(database, database_url, "left-dead")
    assert ended.end is AwayEnd.RECLAIMED


async def begin(database: Database, port: int) -> None:
    """Make the cloud and its peer, or give the peer another port."""
    if "open" not in await Clouds(database).list():
        await fill(database, 0, port)
    else:
        await database.execute("UPDATE peer SET url = %(url)s", {"url": f"http://127.0.0.1:{port}"})


async def first_ends(database: Database, jobs: Iterable[str]) -> dict[str, AwayEnd | None]:
    """Return the first end of each job, None before that."""
    known = await events_by_job(database, "open")
    return {job: next((one.end for one in known.get(job, ()) if isinstance(one, JobEnded)), None) for job in jobs}


async def ends_of(database: Database, database_url: str, *jobs: str) -> list[JobEnded]:
    """Return the ends of the first of some jobs, once a worker that has just begun has written one for each."""
    async with (
        open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker,
        asyncio.timeout(30),
    ):
        while True:
            await worker.job_keeper.keep_jobs()
            known = await events_by_job(database, "open")
            found = [[one for one in known.get(job, ()) if isinstance(one, JobEnded)] for job in jobs]
            if all(found):
                return found[0]
