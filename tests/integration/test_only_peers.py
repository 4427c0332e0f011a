"""A job that may go to no other peer is offered to one that has not answered for long, within its time."""

from __future__ import annotations

import asyncio
import time

import pytest
from peer_jobs import events_of, submit

from app.domain.events import JobDeclined, JobOffered
from app.domain.times import SECOND_US
from app.federation.contacts import BROKEN_AFTER, LONGEST_PAUSE_S, Contact
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from benchmarks.peer_open import Peer, fill


@pytest.mark.anyio
async def test_the_only_peer_of_a_job_is_asked_although_it_did_not_answer_for_long(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Peer()
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await fill(database, 0, server.sockets[0].getsockname()[1])
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            now_s = time.monotonic()
            broken = Contact(BROKEN_AFTER, failed_s=now_s - 1, not_before_s=now_s + 60)
            monkeypatch.setattr(worker.job_keeper.messenger, "contacts", {"far": broken})
            await submit(database, "open", "j", answer_us=4 * SECOND_US)
            await worker.job_keeper.keep_jobs()
            assert not far.jobs, "it rests still"
            while not far.jobs:
                await worker.job_keeper.keep_jobs()
    assert time.monotonic() - now_s >= 1, "half of its time since it last did not answer"
    events = await events_of(database, "open", "j")
    assert isinstance(events[1], JobOffered)
    assert [one.reason for one in events if isinstance(one, JobDeclined)] == ["running"], "its word, and no timeout"
    assert not broken.rests(LONGEST_PAUSE_S), "it has answered: an award follows at once"
