"""Ends sessions of this service that stall in the middle of a statement, because others wait for their locks.

The server ends a transaction that is idle. A session whose client has sent a statement but not the bytes that end it,
because its link went silent there, is not idle for the server, and its statement is over: no time limit of PostgreSQL
15 applies, and what it has written stays locked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context

from app.domain.errors import LogUnavailable

logger = logging.getLogger(__name__)

_END = """
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity AS session
WHERE datname = current_database() AND usename = current_user AND application_name = 'tenure'
AND state = 'active' AND wait_event = 'ClientRead' AND now() - query_start > interval '2 seconds'
AND (backend_xid IS NOT NULL
    OR EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = session.pid AND locktype = 'advisory' AND granted))
"""
_TRIES = 3
_PAUSE_S = 0.8


class StalledSessions:
    """Looks for such sessions, when a call takes long."""

    def __init__(self, execute: Callable[[str], Awaitable[Sequence[object]]]) -> None:
        """`execute` runs a statement on a connection of its own, for those of the pool may all be waiting."""
        self._execute = execute
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Look a few times from now on, unless it is being done."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), context=Context())

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        for _ in range(_TRIES):
            with suppress(LogUnavailable):  # whoever waits gets the error
                for ended in await self._execute(_END):
                    logger.warning("a session that stood still within a statement was ended: %s", ended)
            await asyncio.sleep(_PAUSE_S)
