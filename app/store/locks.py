"""Locks that belong to a process for as long as it works, and are free again at once when it dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from app.domain.errors import LogUnavailable
from app.store.database import Database
from app.store.lockids import LockId, forecast_lock, import_lock


class Locks:
    """PostgreSQL's advisory locks, each held by a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cloud_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Whether this process is the one that recomputes the cloud's table, until the block ends."""
        return self._held(forecast_lock(cloud_id))

    def import_lock(self, cloud_id: int) -> AbstractAsyncContextManager[bool]:
        """Whether this process is the one that imports the cloud's past, until the block ends."""
        return self._held(import_lock(cloud_id))

    @asynccontextmanager
    async def _held(self, lock: LockId) -> AsyncIterator[bool]:
        lock_space, lock_id = lock
        parameters = {"lock_space": lock_space, "lock_id": lock_id}
        async with self._database.connection() as session:
            rows = await session.execute("SELECT pg_try_advisory_lock(%(lock_space)s, %(lock_id)s)", parameters)
            held = bool(rows[0][0])
            try:
                yield held
            finally:
                if held:
                    # A lost connection has lost the lock as well; the primary key of the tables guards against both.
                    with suppress(LogUnavailable):
                        await session.execute("SELECT pg_advisory_unlock(%(lock_space)s, %(lock_id)s)", parameters)
