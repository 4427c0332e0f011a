"""Tells the database about the request that asks it: when it asked first, and if it only reads.

All calls of a request are counted from its first one, so their bounds do not add up
(docs/decisions/0043-one-bound-on-the-database.md). Reads have a part of the connections
(docs/decisions/0084-turns-of-callers.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_asked: ContextVar[list[float] | None] = ContextVar("request", default=None)
"""The moment of a request's first call, on the monotonic clock; empty before it. None outside of requests."""
_since: ContextVar[float | None] = ContextVar("since", default=None)
"""An earlier moment from which bounds are counted; see `waiting_since`."""
_line: ContextVar[float | None] = ContextVar("line", default=None)
"""The moment at which a request came into a line; see `came_at`."""
_is_reading: ContextVar[bool] = ContextVar("is_reading", default=False)


@contextmanager
def set_within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give the variable this value within the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def one_bound() -> AbstractContextManager[None]:
    """Count all bounds within the block from its first call, so that they do not add up."""
    return set_within(_asked, [])


def bounds_of_their_own() -> AbstractContextManager[None]:
    """Give each call within the block a bound of its own again, for what goes on beside or after a request."""
    return set_within(_asked, None)


def asked_since() -> float | None:
    """Return the moment from which a call is counted that is made now; None if it is counted by itself."""
    asked = _asked.get()
    if asked is None:
        return None
    if not asked:
        asked.append(monotonic())
    return asked[0]


def counted_since() -> float | None:
    """Return the moment from which a bound is counted that is made now; None if it is counted by itself."""
    since = _since.get()
    return asked_since() if since is None else since


def waiting_since(moment: float) -> AbstractContextManager[None]:
    """Count the bounds within the block from an earlier moment of the monotonic clock, in seconds."""
    return set_within(_since, moment)


def came_at(moment: float) -> AbstractContextManager[None]:
    """Say within the block that the request has stood in a line from this moment until its first call."""
    return set_within(_line, moment)


def in_line_since() -> float | None:
    """Return from when on the request stood in a line; None if it did not."""
    return _line.get()


def reading(*, only: bool = True) -> AbstractContextManager[None]:
    """Take connections within the block from the half of the pool that reads share: no start waits behind them.

    With `only=False` take them from the whole pool again, for what starts wait for too.
    """
    return set_within(_is_reading, only)


def is_read() -> bool:
    """Return True if a call that is made now belongs to a request that only reads."""
    return _is_reading.get()
