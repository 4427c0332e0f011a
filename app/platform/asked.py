"""Tells the database about the request that asks it: when it asked first, and if it only reads.

All calls of a request are counted from its first one, so their bounds do not add up
(docs/decisions/0043-one-bound-on-the-database.md). Reads have a part of the connections
(docs/decisions/0084-turns-of-callers.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic


class _FirstCall:
    """The moment of a request's first call, on the monotonic clock."""

    def __init__(self) -> None:
        self._first_s: float | None = None

    def since(self) -> float:
        """Return the moment from which its calls are counted; the first call begins it."""
        if self._first_s is None:
            self._first_s = monotonic()
        return self._first_s


_asked: ContextVar[_FirstCall | None] = ContextVar("request", default=None)


@contextmanager
def one_bound() -> Iterator[None]:
    """Count all bounds within the block from its first call, so that they do not add up."""
    token = _asked.set(_FirstCall())
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def bounds_of_their_own() -> Iterator[None]:
    """Give each call within the block a bound of its own again, for what goes on beside or after a request."""
    token = _asked.set(None)
    try:
        yield
    finally:
        _asked.reset(token)


def asked_since() -> float | None:
    """Return the moment from which a call is counted that is made now; None if it is counted by itself."""
    asked = _asked.get()
    return None if asked is None else asked.since()


_is_reading: ContextVar[bool] = ContextVar("is_reading", default=False)


@contextmanager
def reading(*, only: bool = True) -> Iterator[None]:
    """Take connections within the block from the half of the pool that reads share: no start waits behind them.

    With `only=False` take them from the whole pool again, for what starts wait for too.
    """
    token = _is_reading.set(only)
    try:
        yield
    finally:
        _is_reading.reset(token)


def is_read() -> bool:
    """Return True if a call that is made now belongs to a request that only reads."""
    return _is_reading.get()
