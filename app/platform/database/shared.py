"""Places in the pool of connections for what several callers wait for together: the logs of clouds.

Whose turn it is goes by the callers and not by the clouds: else who asks for very many clouds has very many turns, and
who asks for one waits for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable
from itertools import count

_NOBODY = (None,)
"""The callers of what no request waits for: it has turns like that of one caller."""


class SharedPlaces:
    """So many places. Of all who wait, the one goes first whose callers had their last turn longest ago."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[asyncio.Future[None], Collection[Hashable]] = {}
        self._turns: dict[Hashable, int] = {}
        """The last turn of each caller, while somebody waits."""
        self._number = count()

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
        self._turns[min(callers or _NOBODY, key=self._turn_of)] = next(self._number)

    def _last_turn(self, callers: Collection[Hashable]) -> int:
        """Return the earliest last turn among these callers."""
        return min(map(self._turn_of, callers or _NOBODY))

    def _turn_of(self, caller: Hashable) -> int:
        return self._turns.get(caller, -1)
