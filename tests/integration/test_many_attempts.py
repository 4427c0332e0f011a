"""A worker with many attempts that are out at one peer: nobody waits for the others for ever."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.domain.events import Event, JobOffered, JobRequested, Recorded
from app.domain.jobs import Federate
from app.domain.times import SECOND_US
from app.federation import jobs
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.wiring import open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from benchmarks.peer_open import Peer, fill

COUNT = 25
AT_ONCE = 4


async def offer(database: Database, job: str) -> None:
    """Append a job that is offered to the peer, behind all others."""
    cloud_id, log, at_us = await Clouds(database).id_of("open"), EventLog(database), round(time.time() * SECOND_US)
    asked = JobRequested(
        at_us=at_us,
        job=job,
        flavor="c1",
        count=1,
        lifetime_us=SECOND_US,
        federate=Federate.ONLY,
        peers=("far",),
        attempts=1,
        answer_us=60 * SECOND_US,
        hold_us=SECOND_US,
    )
    events: list[Event] = [asked, JobOffered(at_us=at_us, job=job, attempt=1, peer="far")]
    first = await log.last_seq(cloud_id) + 1
    await log.append(cloud_id, [Recorded(seq, event) for seq, event in enumerate(events, first)])


@pytest.mark.anyio
async def test_an_offer_goes_first_and_everybody_is_asked_for_once_before_somebody_twice(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rounds of a turn send twelve messages here; what was asked for is due again two seconds later."""
    monkeypatch.setattr(jobs, "_MOST_TOLD", AT_ONCE)
    monkeypatch.setattr(jobs, "_POLL_S", 0.0)
    peer = Peer()
    server = await asyncio.start_server(peer.answer, "127.0.0.1", 0)
    async with server:
        await fill(database, COUNT, server.sockets[0].getsockname()[1])
        await offer(database, "urgent")
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            while len(peer.jobs) < 3 * COUNT:
                await worker.job_keeper.keep_jobs()
    assert "urgent" in peer.jobs[:AT_ONCE], "its host has little time to answer"
    others = [job for job in peer.jobs if job != "urgent"]
    for turn in range(2):
        part = others[turn * COUNT : (turn + 1) * COUNT]
        assert len({*part}) == COUNT, "who has waited for the longest comes next"
