"""Locks that a process holds while it works and that are free at once if it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from app.domain.errors import LogUnavailable
from app.platform.background import begun
from app.platform.database.database import Database, Session
from app.platform.database.lockids import FIRST_TOKEN_LOCK, LockId, forecast_lock, import_lock

LOST_AFTER_S = 10
_BEAT_S = 2.0
_TAKE = f"""
SELECT set_config('idle_session_timeout', '{LOST_AFTER_S}s', false) AS timeout,
pg_try_advisory_lock(%(lock_space)s, %(lock_id)s) AS taken
"""


class Locks:
    """PostgreSQL's advisory locks, each held by a connection of its own outside the pool."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cloud_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Yield True if this process is the one to recompute the cloud's table, until the block ends."""
        return self._is_held(forecast_lock(cloud_id))

    def import_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Yield True if this process is the one to import the cloud's past, until the block ends."""
        return self._is_held(import_lock(cloud_id))

    def first_token_lock(self) -> AbstractAsyncContextManager[bool]:
        """Yield True if this process may replace an admin token that was never used, until the block ends."""
        return self._is_held(FIRST_TOKEN_LOCK)

    @asynccontextmanager
    async def _is_held(self, lock: LockId) -> AsyncIterator[bool]:
        async with self.held(lock) as hold:
            yield hold is not None

    @asynccontextmanager
    async def held(self, lock: LockId) -> AsyncIterator[Hold | None]:
        """Yield this process's hold of a lock, until the block ends; None if another process has it.

        A process that stalls, or whose host is gone, loses the lock after `LOST_AFTER_S`: the server closes a silent
        connection. Conditions in its statements guard against whatever such a process still does afterwards.
        """
        parameters = dict(zip(("lock_space", "lock_id"), lock, strict=True))
        async with self._database.connection() as session:
            rows = await session.execute(_TAKE, parameters)
            if not rows[0].taken:
                yield None
                return
            hold = Hold(session)
            beating = begun(hold.beat(), "beat")
            try:
                yield hold
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                # A lost connection has lost its lock too; conditions in the statements guard what the lock guards.
                with suppress(LogUnavailable):
                    await session.execute("SELECT pg_advisory_unlock(%(lock_space)s, %(lock_id)s)", parameters)


class Hold:
    """A lock that this process holds as long as its connection lives."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._using = asyncio.Lock()

    async def check(self) -> None:
        """Raise LogUnavailable if the connection, and so the lock, was lost."""
        async with self._using:
            await self._session.execute("SELECT 1")

    async def beat(self) -> None:
        """Send the server a sign of life at intervals, until cancelled or until the lock is lost."""
        with suppress(LogUnavailable):
            while True:
                await asyncio.sleep(_BEAT_S)
                await self.check()
