"""Places of requests in the pool of connections: few of one caller at a time, and who waits has turns.

Without them whoever has hundreds of connections to this service has the whole pool: each of its requests holds one
for as long as the database takes, also where it waits for a row that another of its requests has locked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

OF_CALLER = 2
"""The places that one caller may have at a time."""
_FOR_THE_LOGS = 2
"""So many connections are kept for what is no request's own: the logs, where decisions become durable."""


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


def places_in(pool_size: int) -> tuple[ConnectionPlaces, ConnectionPlaces]:
    """Return the places of reads and of other requests in a pool of so many connections."""
    reads = max(pool_size // 2, 1)
    return ConnectionPlaces(reads), ConnectionPlaces(max(pool_size - reads - _FOR_THE_LOGS, 1))
