"""Places of requests in the pool of connections: few of one caller at a time, and who waits has turns.

Without them whoever has hundreds of connections to this service has the whole pool: each of its requests holds one
for as long as the database takes, also where it waits for a row that another of its requests has locked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from typing import NamedTuple

from app.platform.asked import asked_together, is_read, of_group, whose

OF_CALLER = 2
"""The places that one caller may have at a time."""
_FOR_THE_LOGS = 2
"""So many connections are kept for what is no request's own: the logs, where decisions become durable."""
_NOBODY = (None,)
"""The callers of what no request waits for: it has turns like that of one caller."""


class ConnectionPlace(NamedTuple):
    """A place in the pool, to be taken and to be left."""

    take: Callable[[], Awaitable[None]]
    leave: Callable[[], None]


class ConnectionPlaces:
    """So many places, `OF_CALLER` of one caller at most. Callers belong to groups, and these have turns, too."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, dict[Hashable, deque[asyncio.Future[None]]]] = {}

    async def take(self, caller: Hashable, group: Hashable = None) -> None:
        """Wait for a place. The groups that wait have one each, in turns, and so have the callers of a group."""
        if caller not in self._waiting.get(group, ()) and self._has_room(caller):
            self._hold(caller)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, {}).setdefault(caller, deque()).append(turn)
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
        """Give what is free to those who wait; who has got a place goes behind the others, and so does its group."""
        for group in [*self._waiting]:
            callers = self._waiting[group]
            if any(self._has_room(caller) and self._give_one(callers, caller) for caller in [*callers]):
                self._waiting[group] = self._waiting.pop(group)
            if not callers:
                del self._waiting[group]

    def _give_one(self, callers: dict[Hashable, deque[asyncio.Future[None]]], caller: Hashable) -> bool:
        """Give a place to one that waits; return False if all who waited have gone away."""
        line = callers.pop(caller)
        while line and line[0].done():
            line.popleft()
        if not line:
            return False
        self._hold(caller)
        line.popleft().set_result(None)
        if line:
            callers[caller] = line
        return True


class SharedPlaces:
    """So many places for what several callers wait for together: the logs of clouds.

    Of all that wait the one goes first whose callers had their last turn longest ago. If clouds had turns, who asks for
    very many of them would have very many, and who asks for one would wait for all of these.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[asyncio.Future[None], Collection[Hashable]] = {}
        self._turns: dict[Hashable, int] = {}
        """The last turn of each caller, while somebody waits."""
        self._given = 0

    async def take(self, callers: Collection[Hashable]) -> None:
        """Wait for a place for what these callers wait for. They may change while it waits."""
        if self._free:
            self._hold(callers)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = callers
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(turn, None)
            if not turn.cancelled():  # it was given the place before it went away
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self._free += 1
        while self._free and self._waiting:
            turn = min(self._waiting, key=lambda one: self._last_turn(self._waiting[one]))
            callers = self._waiting.pop(turn)
            if not turn.done():
                self._hold(callers)
                turn.set_result(None)
        if not self._waiting:
            self._turns.clear()

    def _hold(self, callers: Collection[Hashable]) -> None:
        """Take a place. The turn is that of the caller who had its last one longest ago."""
        self._free -= 1
        self._given += 1
        self._turns[min(callers or _NOBODY, key=self._turn_of)] = self._given

    def _last_turn(self, callers: Collection[Hashable]) -> int:
        """Return the earliest last turn among these callers."""
        return min(map(self._turn_of, callers or _NOBODY))

    def _turn_of(self, caller: Hashable) -> int:
        return self._turns.get(caller, 0)


class PoolPlaces:
    """The places in a pool of connections: of reads, of other requests, and of what callers wait for together."""

    def __init__(self, pool_size: int) -> None:
        reads = max(pool_size // 2, 1)
        self._reads, self._logs = ConnectionPlaces(reads), SharedPlaces(pool_size)
        self._changes = ConnectionPlaces(max(pool_size - reads - _FOR_THE_LOGS, 1))

    def of_now(self) -> ConnectionPlace | None:
        """Return what a call that is made now has to take; None if it is nobody's."""
        caller, askers = whose(), asked_together()
        if askers is not None:
            return ConnectionPlace(partial(self._logs.take, askers), self._logs.leave)
        if caller is None and not is_read():
            return None
        places = self._reads if is_read() else self._changes
        return ConnectionPlace(partial(places.take, caller, of_group()), partial(places.leave, caller))
