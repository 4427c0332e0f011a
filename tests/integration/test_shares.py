"""Reads leave a part of the database's connections to those who write, and share what all of them ask for."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.errors import LogUnavailable
from app.platform.asked import reading
from app.platform.database.database import Database
from app.platform.http.dear import GREAT_BODIES, READS
from app.platform.http.fields import Body
from app.platform.http.rates import COSTS, PEER_MESSAGES
from app.platform.once import Shared
from app.platform.telemetry.metrics import PAGE
from app.processes.endpoints import ENDPOINTS

PLAIN = {
    "add_flavor",
    "add_node",
    "abort_instance",
    "add_peer",
    "cancel_job",
    "change_cloud",
    "change_peer",
    "check_health",
    "confirm_handover",
    "create_cloud",
    "create_token",
    "create_webhook",
    "delete_cluster",
    "delete_webhook",
    "discover",
    "drain_node",
    "list_clouds",
    "move_instance",
    "observe_instance",
    "open_node",
    "pause_peer",
    "pause_webhook",
    "put_cluster",
    "remove_node",
    "remove_owner_quota",
    "remove_peer",
    "remove_venue",
    "resize_node",
    "replay_dead_letters",
    "resume_peer",
    "resume_webhook",
    "revoke_token",
    "run_batch",
    "run_drill",
    "set_owner_quota",
    "show_cloud",
    "show_cluster",
    "show_flavor",
    "show_instance",
    "show_job",
    "show_node",
    "show_peer",
    "show_run",
    "show_token",
    "show_venue",
    "show_webhook",
    "start_instance",
    "stop_instance",
    "stream_events",
    "submit_job",
}
"""Operations that count as one request. Every operation stands here or in `COSTS`."""


def test_every_operation_says_what_it_costs() -> None:
    assert {one.name for one in ENDPOINTS} == (COSTS.keys() | PLAIN) - {PAGE}
    assert not COSTS.keys() & PLAIN


def test_every_operation_with_a_large_body_has_turns() -> None:
    usual = Body.most_bytes
    large = {one.name for one in ENDPOINTS if one.body is not None and one.body.most_bytes > usual} | {"run_batch"}
    assert large >= {"start_instance", "submit_job", "award_job", "make_plan"}
    assert large <= READS | GREAT_BODIES | PEER_MESSAGES


pytestmark = pytest.mark.anyio


async def _sleep(database: Database, seconds: float) -> None:
    await database.execute("SELECT pg_sleep(%(seconds)s)", {"seconds": seconds})


async def test_no_write_waits_for_reads(database: Database) -> None:
    with reading():
        reads = [asyncio.ensure_future(_sleep(database, 0.5)) for _ in range(40)]
    await asyncio.sleep(0.2)
    async with asyncio.timeout(1.0):
        await asyncio.gather(*(_sleep(database, 0.0) for _ in range(5)))
    assert sum(one.done() for one in reads) < 20
    for one in reads:
        one.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    with reading():
        await asyncio.gather(*(_sleep(database, 0.0) for _ in range(40)))


async def test_who_waits_shares_one_computation() -> None:
    made = 0

    async def compute() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0.01)
        if made == 2:
            raise LogUnavailable("gone")
        return made

    shared = Shared(compute, 0.0)
    assert await asyncio.gather(*(shared.get() for _ in range(9))) == [1] * 9
    failed = await asyncio.gather(*(shared.get() for _ in range(9)), return_exceptions=True)
    assert [type(one) for one in failed] == [LogUnavailable] * 9
    assert await shared.get() == 3
    kept = Shared(compute, 60.0)
    assert [await kept.get(), await kept.get()] == [4, 4]


async def test_who_leaves_takes_nothing_from_those_who_wait() -> None:
    async def compute() -> int:
        await asyncio.sleep(0.05)
        return 1

    shared = Shared(compute)
    leaving, staying = asyncio.ensure_future(shared.get()), asyncio.ensure_future(shared.get())
    await asyncio.sleep(0.01)
    leaving.cancel()
    assert await staying == 1
