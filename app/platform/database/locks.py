"""Locks that a process holds while it works and that are free at once if it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from app.domain.errors import LogUnavailable
from app.platform.background import begun
from app.platform.database.database import Database, Session
from app.platform.database.lockids import LockId

_TAKE = """
SELECT set_config('idle_session_timeout', %(lost_after)s, false) AS timeout,
pg_try_advisory_lock(%(lock_space)s, %(lock_id)s) AS taken
"""


@dataclass(frozen=True, slots=True)
class LockPauses:
    """The beats that keep a lock, in seconds: one every `beat_s`; a silent holder loses it after `lost_after_s`."""

    lost_after_s: float = 10.0
    beat_s: float = 2.0


class _PerhapsHeld(Exception):
    """The block is over, and it is not known whether the lock is free: its connection must be closed."""


class Locks:
    """PostgreSQL's advisory locks, each held by a connection that nobody else uses meanwhile, outside the pool."""

    def __init__(self, database: Database, pauses: LockPauses | None = None) -> None:
        self._database = database
        self._pauses = pauses or LockPauses()

    @asynccontextmanager
    async def held(self, lock: LockId) -> AsyncIterator[Hold | None]:
        """Yield this process's hold of a lock, until the block ends; None if another process has it.

        A process that stalls, or whose host is gone, loses the lock after a while: the server closes a silent
        connection. Conditions in its statements guard against whatever such a process still does afterwards.
        """
        parameters = dict(zip(("lock_space", "lock_id"), lock, strict=True))
        with suppress(_PerhapsHeld):
            async with self._database.lent_connection() as session:
                lost_after = f"{round(self._pauses.lost_after_s * 1000)}ms"
                rows = await session.execute(_TAKE, {**parameters, "lost_after": lost_after})
                if not rows[0].taken:
                    yield None
                    return
                hold = Hold(session, self._pauses.beat_s)
                beating = begun(hold.beat(), "beat")
                try:
                    yield hold
                finally:
                    beating.cancel()
                    await asyncio.gather(beating, return_exceptions=True)
                    is_free = await _freed(session, parameters)
                if not is_free:
                    raise _PerhapsHeld


async def _freed(session: Session, parameters: Mapping[str, int]) -> bool:
    """Free a lock; False if that is not known. A lost connection has lost it too (`Locks.held`)."""
    try:
        await session.execute("SELECT pg_advisory_unlock(%(lock_space)s, %(lock_id)s)", parameters)
    except LogUnavailable:
        return False
    return True


class Hold:
    """A lock that this process holds as long as its connection lives."""

    def __init__(self, session: Session, beat_s: float) -> None:
        self._session = session
        self._beat_s = beat_s
        self._using = asyncio.Lock()

    async def check(self) -> None:
        """Raise LogUnavailable if the connection, and so the lock, was lost."""
        async with self._using:
            await self._session.execute("SELECT 1")

    async def beat(self) -> None:
        """Send the server a sign of life at intervals, until cancelled or until the lock is lost."""
        with suppress(LogUnavailable):
            while True:
                await asyncio.sleep(self._beat_s)
                await self.check()
