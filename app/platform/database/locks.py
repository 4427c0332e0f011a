"""Locks that belong to a process for as long as it works, and are free again at once when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from app.domain.errors import LogUnavailable
from app.platform.database.database import Database, Session
from app.platform.database.lockids import FIRST_TOKEN_LOCK, LockId, forecast_lock, import_lock

LOST_AFTER_S = 10
_BEAT_S = 2.0
_TAKE = f"""
SELECT set_config('idle_session_timeout', '{LOST_AFTER_S}s', false) AS timeout,
pg_try_advisory_lock(%(lock_space)s, %(lock_id)s) AS taken
"""


class Locks:
    """PostgreSQL's advisory locks, each held by a connection of its own, which the pool does not count."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cloud_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Whether this process is the one that recomputes the cloud's table, until the block ends."""
        return self._is_held(forecast_lock(cloud_id))

    def import_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Whether this process is the one that imports the cloud's past, until the block ends."""
        return self._is_held(import_lock(cloud_id))

    def first_token_lock(self) -> AbstractAsyncContextManager[bool]:
        """Tell whether this process may replace an admin token that was never used, until the block ends."""
        return self._is_held(FIRST_TOKEN_LOCK)

    @asynccontextmanager
    async def _is_held(self, lock: LockId) -> AsyncIterator[bool]:
        async with self.held(lock) as hold:
            yield hold is not None

    @asynccontextmanager
    async def held(self, lock: LockId) -> AsyncIterator[Hold | None]:
        """This process's hold of a lock, until the block ends; None where another one has it.

        A process that stands still, or whose host is gone, loses the lock after `LOST_AFTER_S`: the server closes the
        connection when it hears nothing. What such a process still does afterwards is guarded by conditions.
        """
        parameters = dict(zip(("lock_space", "lock_id"), lock, strict=True))
        async with self._database.connection() as session:
            rows = await session.execute(_TAKE, parameters)
            if not rows[0].taken:
                yield None
                return
            hold = Hold(session)
            beating = asyncio.create_task(hold.beat())
            try:
                yield hold
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
                # A lost connection has lost the lock as well; what it guards is guarded by conditions, too.
                with suppress(LogUnavailable):
                    await session.execute("SELECT pg_advisory_unlock(%(lock_space)s, %(lock_id)s)", parameters)


class Hold:
    """A lock that this process has, for as long as its connection lives."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._using = asyncio.Lock()

    async def check(self) -> None:
        """LogUnavailable where the connection, and so the lock, was lost."""
        async with self._using:
            await self._session.execute("SELECT 1")

    async def beat(self) -> None:
        """Let the server hear of this process until cancelled, or until the lock is lost."""
        with suppress(LogUnavailable):
            while True:
                await asyncio.sleep(_BEAT_S)
                await self.check()
