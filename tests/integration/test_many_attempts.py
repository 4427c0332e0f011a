"""A worker with many attempts that are out at one peer: nobody waits for the others for ever."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

import pytest
from peer_jobs import submit

from app.federation import messenger
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from app.scheduling.store.clouds import Clouds
from benchmarks.peer_open import Peer, fill

COUNT = 25
AT_ONCE = 4


@pytest.mark.anyio
async def test_an_offer_goes_first_and_everybody_is_asked_for_once_before_somebody_twice(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A talk puts four messages in order at a time here; what was asked for is due again at once."""
    monkeypatch.setattr(messenger, "_MOST_PLANNED", AT_ONCE)
    monkeypatch.setattr(messenger, "_POLL_S", 0.0)
    peer = Peer()
    server = await asyncio.start_server(peer.answer, "127.0.0.1", 0)
    async with server:
        await fill(database, COUNT, server.sockets[0].getsockname()[1])
        await submit(database, "open", "urgent", offered=True)
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            while len(peer.jobs) < 3 * COUNT:
                await worker.job_keeper.keep_jobs()
    assert "urgent" in peer.jobs[:AT_ONCE], "its host has little time to answer"
    others = [job for job in peer.jobs if job != "urgent"]
    for turn in range(2):
        part = others[turn * COUNT : (turn + 1) * COUNT]
        assert len({*part}) == COUNT, "who has waited for the longest comes next"


class ForgetfulPeer(Peer):
    """A host that has forgotten all attempts."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.jobs.append(head.split(b"/offers/")[1].split(b"/")[0].decode())
        body = json.dumps({"word": "unknown"}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()


@pytest.mark.anyio
async def test_a_word_that_changes_nothing_is_not_asked_for_at_once(database: Database, database_url: str) -> None:
    peer, count = ForgetfulPeer(), 3
    server = await asyncio.start_server(peer.answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        if "open" not in await Clouds(database).list():
            await fill(database, count, port)
        await database.execute("UPDATE peer SET url = %(url)s", {"url": f"http://127.0.0.1:{port}"})
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            began_s = time.monotonic()
            while time.monotonic() < began_s + 1.5:
                await worker.job_keeper.keep_jobs()
    assert peer.jobs
    assert max(Counter(peer.jobs).values()) == 1, "two seconds are between two questions"
