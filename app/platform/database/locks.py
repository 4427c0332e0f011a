"""Locks that a process holds while it works and that are free at once if it dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self

from app.domain.errors import LogUnavailable
from app.platform.background import begun
from app.platform.database.database import Database, Parameters, Rows, Session
from app.platform.database.lockids import LockId

_TAKE = """
SELECT set_config('idle_session_timeout', %(lost_after)s, false) AS timeout,
pg_try_advisory_lock(%(lock_space)s, %(lock_id)s) AS taken
"""
_FREE = "SELECT pg_advisory_unlock(%(lock_space)s, %(lock_id)s)"


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
        with suppress(_PerhapsHeld):
            async with self._database.lent_connection() as session:
                hold = Hold(session, self._pauses)
                if not await hold.take(lock):
                    yield None
                    return
                try:
                    async with hold.beating():
                        yield hold
                finally:
                    is_free = await hold.free(lock)
                if not is_free:
                    raise _PerhapsHeld


class LocksTogether:
    """Advisory locks that one connection holds together, for a process that holds very many at a time.

    If the connection is lost, all of them are (`Hold.is_lost`); the next lock is taken over a new one.
    """

    def __init__(self, database: Database, pauses: LockPauses | None = None) -> None:
        self._database = database
        self._pauses = pauses or LockPauses()
        self._held = set[LockId]()
        self._opening = asyncio.Lock()
        self._hold: Hold | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    @asynccontextmanager
    async def held(self, lock: LockId) -> AsyncIterator[Hold | None]:
        """Yield the hold of a lock, until the block ends; None if another process or another block has it."""
        if lock in self._held:  # the server would give it to this connection once more
            yield None
            return
        self._held.add(lock)
        try:
            hold = await self._current()
            if not await hold.take(lock):
                yield None
                return
            try:
                yield hold
            finally:
                await hold.free(lock)
        finally:
            self._held.discard(lock)

    async def _current(self) -> Hold:
        """Return what holds the locks now: over a new connection, if the last one was lost."""
        async with self._opening:
            if self._hold is None or self._hold.is_lost:
                self._hold = None
                await self._open.aclose()
                session = await self._open.enter_async_context(self._database.connection())
                hold = Hold(session, self._pauses)
                await self._open.enter_async_context(hold.beating())
                self._hold = hold
            return self._hold


class Hold:
    """The locks that this process has over a connection, as long as that lives. `is_lost`: it lives no more."""

    def __init__(self, session: Session, pauses: LockPauses) -> None:
        self._session = session
        self._pauses = pauses
        self._using = asyncio.Lock()
        self.is_lost = False

    async def take(self, lock: LockId) -> bool:
        """Take a lock; return False if another process has it. Raise LogUnavailable."""
        lost_after = f"{round(self._pauses.lost_after_s * 1000)}ms"
        rows = await self._execute(_TAKE, {**_words(lock), "lost_after": lost_after})
        return bool(rows[0].taken)

    async def free(self, lock: LockId) -> bool:
        """Free a lock; return False if that is not known. A lost connection has lost it too."""
        try:
            await self._execute(_FREE, _words(lock))
        except LogUnavailable:
            return False
        return True

    async def check(self) -> None:
        """Raise LogUnavailable if the connection, and so the lock, was lost."""
        await self._execute("SELECT 1")

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Send the server signs of life until the block ends."""
        beating = begun(self.beat(), "beat")
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def beat(self) -> None:
        """Send the server a sign of life at intervals, until cancelled or until the lock is lost."""
        with suppress(LogUnavailable):
            while True:
                await asyncio.sleep(self._pauses.beat_s)
                await self.check()

    async def _execute(self, sql: str, parameters: Parameters | None = None) -> Rows:
        """Run a statement. One that fails, or that is broken off, leaves it open what is held: that is lost then."""
        async with self._using:
            try:
                return await self._session.execute(sql, parameters)
            except BaseException:
                self.is_lost = True
                raise


def _words(lock: LockId) -> dict[str, int]:
    return dict(zip(("lock_space", "lock_id"), lock, strict=True))
