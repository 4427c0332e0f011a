"""Locks over connections that are lent again: nothing of one holder is left for the next."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.errors import LogUnavailable
from app.platform.database.database import Database
from app.platform.database.locks import Hold, Locks

pytestmark = pytest.mark.anyio
LOCK, OTHER = (4711, 1), (4711, 2)


async def backend_of(hold: Hold | None) -> int:
    assert hold is not None
    [[pid]] = await hold._session.execute("SELECT pg_backend_pid()")
    return int(pid)


async def locks_of(database: Database) -> list[int]:
    """The advisory locks of this test that anybody has."""
    rows = await database.execute("SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = 4711")
    return sorted(int(row.objid) for row in rows)


async def test_one_after_another_has_the_same_connection_and_no_lock_of_the_one_before(database: Database) -> None:
    locks, pids = Locks(database), set[int]()
    for lock in (LOCK, OTHER, LOCK):
        async with locks.held(lock) as hold:
            pids.add(await backend_of(hold))
            assert await locks_of(database) == [lock[1]]
        assert await locks_of(database) == []
    assert len(pids) == 1


async def test_two_at_once_have_two_connections_and_the_second_of_one_lock_has_none(database: Database) -> None:
    locks = Locks(database)
    async with locks.held(LOCK) as first, locks.held(OTHER) as second, locks.held(LOCK) as none:
        assert none is None
        assert await backend_of(first) != await backend_of(second)
    assert await locks_of(database) == []


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_the_connection_of_a_block_that_raises_is_closed(database: Database, error: type[BaseException]) -> None:
    locks, before = Locks(database), 0

    async def broken_off() -> None:
        nonlocal before
        async with locks.held(LOCK) as hold:
            before = await backend_of(hold)
            raise error

    with pytest.raises(error):
        await broken_off()
    assert await locks_of(database) == [], "it is free at once"
    async with locks.held(LOCK) as hold:
        assert await backend_of(hold) != before


async def test_a_lock_that_could_not_be_freed_goes_with_its_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(database)
    async with locks.held(LOCK) as hold:
        before, execute = await backend_of(hold), hold._session.execute

        async def broken(sql: str, parameters: object = None) -> object:
            if "unlock" in sql:
                raise LogUnavailable("the statement took too long")
            return await execute(sql, parameters)

        monkeypatch.setattr(hold._session, "execute", broken)
    async with asyncio.timeout(5):
        while await locks_of(database):  # noqa: ASYNC110 - the server closes it in its own time
            await asyncio.sleep(0.01)
    async with locks.held(LOCK) as hold:
        assert await backend_of(hold) != before


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(database: Database) -> None:
    locks = Locks(database)
    async with locks.held(LOCK) as hold:
        before = await backend_of(hold)
    await database.execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": before})
    await asyncio.sleep(0.2)
    async with locks.held(LOCK) as hold:
        assert await backend_of(hold) != before
        assert await locks_of(database) == [1]
