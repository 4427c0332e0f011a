"""The bound on the time that one call waits for the database: for a place in the pool, connecting, and every statement.

Cancelling a statement would ask the server to end it and wait for that, so a server that says nothing would be waited
for long after the bound. Instead the connection's socket is shut, which fails whoever waits for it at once. The server
ends the statement by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Timer
from time import monotonic
from traceback import clear_frames
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen

from app.platform.asked import counted_since, in_line_since

T = TypeVar("T")
_LEAST_S = 1.0
"""A call has this long even where it was made late: what is slow for another reason than the database must go on."""
_LONG_S = 1.5
"""A call that takes longer may be waiting for another session."""

_current: ContextVar[Bound | None] = ContextVar("current", default=None)


class Bounds:
    """Bounds on the waiting for one database, in seconds. `told` is called of each call that takes long."""

    def __init__(self, timeout_s: float, told: Callable[[], None] = lambda: None) -> None:
        self.timeout_s = timeout_s
        self.told = told
        self.ended_at = float("-inf")
        """The moment at which a bound last ended."""

    def bound(self, connection: psycopg.AsyncConnection | None = None) -> Bound:
        """Return a bound for one call, on this connection if it is known."""
        return Bound(self, connection)


class Bound:
    """A time after which waiting for the database ends, within a `with` block."""

    def __init__(self, bounds: Bounds, connection: psycopg.AsyncConnection | None) -> None:
        since, came = counted_since(), in_line_since()
        if since is not None and came is not None and came < bounds.ended_at <= since:
            since = came  # those before it in its line waited in vain
        left_s = bounds.timeout_s if since is None else bounds.timeout_s - (monotonic() - since)
        # Who waited for others that waited for the database in vain has no time of its own: they would add up.
        least_s = 0.0 if since is not None and bounds.ended_at > since else min(_LEAST_S, bounds.timeout_s)
        self._left_s = max(left_s, least_s)
        self._is_over = self._left_s <= 0
        self._bounds = bounds
        self._connection = connection
        self._connecting: asyncio.Timeout | None = None

    def __enter__(self) -> Self:
        first_s = min(_LONG_S, max(0.0, self._left_s))
        self._handle = asyncio.get_running_loop().call_later(first_s, self._tell_or_end, first_s)
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.cancel()
        _current.reset(self._token)

    async def connected(self, connecting: Awaitable[T]) -> T:
        """Wait for a connection. TimeoutError."""
        if self._is_over:
            if isinstance(connecting, Coroutine):
                connecting.close()
            raise TimeoutError
        with abandoned_connections_closed():
            async with asyncio.timeout(None) as self._connecting:
                return await connecting

    def guard(self, connection: psycopg.AsyncConnection) -> None:
        """Take this connection as the one that is waited for."""
        self._connection = connection
        if self._is_over:
            shut(connection)

    def _tell_or_end(self, waited_s: float) -> None:
        if waited_s >= self._left_s:
            self._end()
            return
        self._handle = asyncio.get_running_loop().call_later(self._left_s - waited_s, self._end)
        self._bounds.told()

    def _end(self) -> None:
        self._is_over = True
        if self._left_s >= min(_LEAST_S, self._bounds.timeout_s):  # a shorter one tells nothing of the database
            self._bounds.ended_at = monotonic()
        if self._connection is not None:
            shut(self._connection)
        elif self._connecting is not None and self._connecting.when() is None:
            self._connecting.reschedule(0)


class PromptConnection(psycopg.AsyncConnection):
    """A connection that whoever is cancelled leaves at once; the server notices, and ends the statement."""

    async def cancel_safe(self, *, timeout: float = 0.0) -> None:  # noqa: ARG002, ASYNC109 - the driver's
        """Shut the connection."""
        shut(self)


class Silence(psycopg.OperationalError):
    """The server said nothing within the bound. Whether a statement was executed is unknown."""


class ImpatientConnection(psycopg.Connection):
    """A connection for threads without an event loop: each wait for the server ends after `bound_s` seconds.

    None waits without limit. Raises Silence, and the connection is broken then.
    """

    bound_s: float | None = None

    def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:  # noqa: ANN401 - the driver's
        """Let the driver exchange bytes with the server."""
        if self.bound_s is None:
            return super().wait(gen, *arguments, **named)
        bound_s, is_over = self.bound_s, Event()

        def end() -> None:
            is_over.set()
            shut(self)

        timer = Timer(bound_s, end)
        timer.daemon = True
        timer.start()
        try:
            return super().wait(gen, *arguments, **named)
        except psycopg.OperationalError as error:
            if not is_over.is_set():
                raise
            raise Silence(f"it said nothing for {bound_s:g} s") from error
        finally:
            timer.cancel()


@contextmanager
def abandoned_connections_closed() -> Iterator[None]:
    """Close a connection whose opening fails within the block.

    The driver keeps its socket until nobody refers to it any more. The frames of the error do, in a circle, so that it
    would wait for the garbage collector. Frames of an error that is handled around the block are left as they are.
    """
    around = sys.exception()
    try:
        yield
    except BaseException as error:
        _clear_frames(error, around)
        raise


def _clear_frames(error: BaseException | None, around: BaseException | None) -> None:
    while error is not None and error is not around:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def guard_by_current(connection: psycopg.AsyncConnection) -> None:
    """Have the bound of this task's call, if any, guard the connection."""
    bound = _current.get()
    if bound is not None:
        bound.guard(connection)


def shut(connection: psycopg.AsyncConnection | psycopg.Connection) -> None:
    """End the connection for both sides, whatever the other one does; who waits for it gets an OperationalError."""
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.shutdown(socket.SHUT_RDWR)
