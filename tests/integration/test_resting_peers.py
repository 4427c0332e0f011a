"""A job that no other peer may have waits for one that has not answered for long."""

from __future__ import annotations

import asyncio
import time

import pytest
from peer_jobs import events_of, submit

from app.domain.events import JobOffered, JobRequested
from app.federation.contacts import BROKEN_AFTER, Contact
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from benchmarks.peer_open import Peer, fill


@pytest.mark.anyio
async def test_a_job_whose_only_peer_rests_waits_until_it_is_asked_again(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Peer()
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await fill(database, 1, server.sockets[0].getsockname()[1])
        await submit(database, "open", "patient", ("far",))
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            now_s = time.monotonic()
            broken = Contact(BROKEN_AFTER, failed_s=now_s, not_before_s=now_s + 60)
            monkeypatch.setattr(worker.job_keeper.messenger, "contacts", {"far": broken})
            for _ in range(5):
                await worker.job_keeper.keep_jobs()
            waiting = await events_of(database, "open", "patient")
            assert [type(one) for one in waiting] == [JobRequested, JobOffered], "no attempt was used up"
            assert not far.jobs
            broken.not_before_s = 0.0
            async with asyncio.timeout(20):
                while "patient" not in far.jobs:
                    await worker.job_keeper.keep_jobs()
