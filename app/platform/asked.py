"""Tells the database about the request that asks it: when it asked first, who sent it, and if it only reads.

All calls of a request are counted from its first one, so their bounds do not add up
(docs/decisions/0043-one-bound-on-the-database.md). Reads have a part of the connections
(docs/decisions/0084-turns-of-callers.md), and each caller a few (docs/decisions/0274-few-connections-of-one-caller.md),
for which clouds have turns (docs/decisions/0282-turns-of-clouds.md). Nobody waits in another one's line for them
(docs/decisions/0281-turns-are-nobodys.md).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_asked: ContextVar[list[float] | None] = ContextVar("request", default=None)
"""The moment of a request's first call, on the monotonic clock; empty before it. None outside of requests."""
_since: ContextVar[float | None] = ContextVar("since", default=None)
"""An earlier moment from which bounds are counted; see `waiting_since`."""
_line: ContextVar[float | None] = ContextVar("line", default=None)
"""The moment at which a request came into a line; see `came_at`."""
_is_reading: ContextVar[bool] = ContextVar("is_reading", default=False)
_caller: ContextVar[Hashable] = ContextVar("caller", default=None)
"""The sender of the request; None before that is known, and for work that belongs to no request."""
_askers: ContextVar[Askers | None] = ContextVar("askers", default=None)
"""Those who wait together for what is asked now; None if it is asked for one request, or for nobody."""
_group: ContextVar[Hashable] = ContextVar("group", default=None)
"""The group that the sender belongs to."""


class Askers(Counter[Hashable]):
    """Those who wait for something together, with the number of their requests; they come and go meanwhile."""

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count the sender of the present request among them within the block, by its group if it has one."""
        asker = whose() if of_group() is None else of_group()
        self[asker] += 1
        try:
            yield
        finally:
            self[asker] -= 1
            if not self[asker]:
                del self[asker]


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


def reading() -> AbstractContextManager[None]:
    """Take connections within the block from the half of the pool that reads share: no start waits behind them."""
    return set_within(_is_reading, value=True)


def is_read() -> bool:
    """Return True if a call that is made now belongs to a request that only reads."""
    return _is_reading.get()


def asked_by(caller: Hashable, group: Hashable = None) -> None:
    """Say from now on, within this request, whose it is, and to which group of callers they belong."""
    _caller.set(caller)
    _group.set(group)


def whose() -> Hashable:
    """Return whose request makes a call now; None if it belongs to nobody's."""
    return _caller.get()


def of_group() -> Hashable:
    """Return the group of whoever makes a call now."""
    return _group.get()


@contextmanager
def for_all(askers: Askers | None = None) -> Iterator[None]:
    """Take connections within the block from the whole pool, and as nobody: the requests of others wait for it too.

    If these are `askers`, their turn is that of any of them.
    """
    with set_within(_is_reading, value=False), set_within(_caller, None), set_within(_askers, askers):
        yield


def asked_together() -> Askers | None:
    """Return those who wait together for what is asked now; None if it is asked for one request, or for nobody."""
    return _askers.get()


class CommonTurns:
    """So many turns at what requests of several callers wait for. Whoever has one asks the database as nobody.

    Else it would stand in its caller's line with the turn, and everybody who waits for the turn would wait there too.
    All locks and semaphores of the service are such turns, but for those that a test lists.
    """

    def __init__(self, count: int = 1) -> None:
        self._turns = asyncio.Semaphore(count)

    @asynccontextmanager
    async def taken(self, askers: Askers | None = None) -> AsyncIterator[None]:
        """Wait for a turn, and have it within the block; `askers` as in `for_all`."""
        async with self._turns:
            with for_all(askers):
                yield


class TurnsAtEach:
    """Turns at things by their keys: one at a time at each, `count` in all, and one of each caller, so that none has
    all of them.
    """

    def __init__(self, count: int) -> None:
        self._places = CommonTurns(count)
        self._of_keys = WeakValueDictionary[Hashable, CommonTurns]()
        self._of_callers = WeakValueDictionary[Hashable, asyncio.Lock]()

    @asynccontextmanager
    async def taken(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a turn at a thing, and have it within the block."""
        caller = whose()
        own = nullcontext() if caller is None else self._of_callers.setdefault(caller, asyncio.Lock())
        turns = self._of_keys.setdefault(key, CommonTurns())
        async with own, turns.taken(), self._places.taken():
            yield
