"""Locks that one connection holds together are as exclusive as others, and are lost with the connection."""

from __future__ import annotations

import asyncio

import pytest

from app.platform.database.database import Database
from app.platform.database.locks import Hold, LockPauses, Locks, LocksTogether

pytestmark = pytest.mark.anyio
FIRST, SECOND = (4712, 1), (4712, 2)
PAUSES = LockPauses(lost_after_s=3.0, beat_s=0.1)


async def holders(database: Database) -> dict[int, int]:
    """The server's process that has each lock of this test."""
    rows = await database.execute("SELECT objid, pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 4712")
    return {int(row.objid): int(row.pid) for row in rows}


async def until_lost(hold: Hold | None) -> None:
    assert hold is not None
    async with asyncio.timeout(5):
        while not hold.is_lost:  # noqa: ASYNC110 - it is found by the next beat
            await asyncio.sleep(0.01)


async def test_many_locks_are_held_by_one_connection_each_for_itself(database: Database) -> None:
    async with LocksTogether(database) as together:
        async with together.held(FIRST) as first:
            async with together.held(SECOND) as second:
                assert first is second is not None
                assert len({*(await holders(database)).values()}) == 1
            assert {*await holders(database)} == {FIRST[1]}
        assert await holders(database) == {}


async def test_a_second_block_and_another_process_have_none(database: Database) -> None:
    async with LocksTogether(database) as together, together.held(FIRST) as first:
        assert first is not None
        async with together.held(FIRST) as again, Locks(database).held(FIRST) as other:
            assert again is other is None
        assert {*await holders(database)} == {FIRST[1]}, "those who got none have freed nothing"
        async with Locks(database).held(SECOND), together.held(SECOND) as none:
            assert none is None


async def test_all_are_lost_with_the_connection_and_the_next_is_taken_over_a_new_one(database: Database) -> None:
    async with LocksTogether(database, PAUSES) as together:
        async with together.held(FIRST) as first, together.held(SECOND):
            before = (await holders(database))[FIRST[1]]
            await database.execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": before})
            await until_lost(first)
            async with Locks(database).held(FIRST) as other:
                assert other is not None
        async with together.held(SECOND) as again:
            assert again is not first
            assert {*await holders(database)} == {SECOND[1]}


async def test_a_block_that_is_cancelled_leaves_no_lock(database: Database) -> None:
    async with LocksTogether(database) as together:

        async def waits() -> None:
            async with together.held(FIRST):
                await asyncio.sleep(60)

        waiting = asyncio.create_task(waits())
        async with asyncio.timeout(5):
            while not await holders(database):  # noqa: ASYNC110 - the server tells
                await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await holders(database) == {}
        async with together.held(FIRST) as hold:
            assert hold is not None
