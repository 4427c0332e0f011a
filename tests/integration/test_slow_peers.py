"""A peer that takes long to answer many messages leaves the place of its talk to others in between."""

from __future__ import annotations

import asyncio

import pytest
from peer_jobs import submit

from app.federation import jobs
from app.federation.store import PeerStore
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.wiring import open_worker
from benchmarks.peer_open import Peer, fill

JOBS = 160
TAKES_S = 0.3


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
        url = f"http://127.0.0.1:{slow_server.sockets[0].getsockname()[1]}"
        given = {"name": "slow", "url": url, "cloud": "slow", "secret": "t", "quota": "{}"}
        await PeerStore(database).add({**given, "objects_url": None, "link_mbit_s": None}, 100)
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
