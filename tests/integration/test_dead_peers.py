"""Peers that have not answered for long cost others nothing: they are passed over in the same append."""

from __future__ import annotations

import asyncio
import time

import pytest
from peer_jobs import events_of, submit

from app.domain.events import JobDeclined, JobOffered, JobRequested
from app.federation.contacts import BROKEN_AFTER, Contact
from app.federation.store import PeerStore
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from benchmarks.peer_open import Peer, fill

DEAD = tuple(f"dead-{number}" for number in range(16))
JOBS = 5


@pytest.mark.anyio
async def test_sixteen_dead_peers_are_passed_over_in_one_append(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Peer()
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await fill(database, 1, port)
        for name in DEAD:
            given = {"name": name, "url": f"http://127.0.0.1:{port}", "cloud": "c", "secret": "t", "quota": "{}"}
            await PeerStore(database).add({**given, "objects_url": None, "link_mbit_s": None}, 100)
        for number in range(JOBS):
            await submit(database, "open", f"new-{number}", (*DEAD, "far"))
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            broken = Contact(BROKEN_AFTER, not_before_s=time.monotonic() + 60)
            monkeypatch.setattr(worker.job_keeper.messenger, "contacts", dict.fromkeys(DEAD, broken))
            while len({*far.jobs}) < JOBS + 1:
                await worker.job_keeper.keep_jobs()
    for number in range(JOBS):
        events = await events_of(database, "open", f"new-{number}")
        (asked, *passed), rest = events[: 2 * len(DEAD) + 1], events[2 * len(DEAD) + 1 :]
        assert isinstance(asked, JobRequested)
        assert [one.peer for one in passed[::2] if isinstance(one, JobOffered)] == [*DEAD]
        assert {one.reason for one in passed[1::2] if isinstance(one, JobDeclined)} == {"breaker_open"}
        assert isinstance(rest[0], JobOffered)
        assert rest[0].peer == "far"
        assert len({one.at_us for one in [*passed, rest[0]]}) == 1, "one append"
