"""Places of requests in the pool of connections: few of one caller at a time, and callers who wait have turns.

Without them whoever has hundreds of connections to this service has the whole pool: each of its requests holds one
for as long as the database takes, also where it waits for a row that another of its requests has locked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import NamedTuple

from app.platform.asked import asked_together, is_read, whose
from app.platform.database.shared import SharedPlaces

OF_CALLER = 2
"""The places that one caller may have at a time."""
_FOR_THE_LOGS = 2
"""So many connections are kept for what is no request's own: the logs, where decisions become durable."""


class Place(NamedTuple):
    """A place in the pool, to be taken and to be left."""

    take: Callable[[], Awaitable[None]]
    leave: Callable[[], None]


class ConnectionPlaces:
    """So many places, `OF_CALLER` of one caller at most."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    async def take(self, caller: Hashable) -> None:
        """Wait for a place. The callers who wait have one each, in turns."""
        if caller not in self._waiting and self._has_room(caller):
            self._hold(caller)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given the place before it went away
                self.leave(caller)
            raise

    def leave(self, caller: Hashable) -> None:
        """Give a place back."""
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        self._give()

    def _has_room(self, caller: Hashable) -> bool:
        return self._free > 0 and self._held.get(caller, 0) < OF_CALLER

    def _hold(self, caller: Hashable) -> None:
        self._free -= 1
        self._held[caller] = self._held.get(caller, 0) + 1

    def _give(self) -> None:
        """Give what is free to those who wait; who has got a place goes behind the other callers."""
        for caller in [*self._waiting]:
            if not self._has_room(caller):
                continue
            line = self._waiting.pop(caller)
            while line and line[0].done():  # whoever has gone away
                line.popleft()
            if line:
                self._hold(caller)
                line.popleft().set_result(None)
            if line:
                self._waiting[caller] = line


class PoolPlaces:
    """The places in a pool of connections: of reads, of other requests, and of what callers wait for together."""

    def __init__(self, pool_size: int) -> None:
        reads = max(pool_size // 2, 1)
        self._reads, self._logs = ConnectionPlaces(reads), SharedPlaces(pool_size)
        self._changes = ConnectionPlaces(max(pool_size - reads - _FOR_THE_LOGS, 1))

    def of_now(self) -> Place | None:
        """Return what a call that is made now has to take; None if it is nobody's."""
        caller, askers = whose(), asked_together()
        if askers is not None:
            return Place(partial(self._logs.take, askers), self._logs.leave)
        if caller is None and not is_read():
            return None
        places = self._reads if is_read() else self._changes
        return Place(partial(places.take, caller), partial(places.leave, caller))
