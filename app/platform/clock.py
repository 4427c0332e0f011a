"""The service's clock: the database's, carried on by this process's monotonic clock between two looks at it.

All processes of a database so agree on the time, and a machine whose clock is wrong, or is put right, changes nothing
(docs/decisions/0042-the-databases-clock.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from time import monotonic_ns

from app.domain.errors import LogUnavailable
from app.domain.times import to_datetime
from app.platform.background import background

_LOOK_EVERY_S = 5.0
_FIRST_LOOKS = 2
"""The first look may open the connection, so it is a slow one; the second bounds the time more closely."""


def _monotonic_us() -> int:
    return monotonic_ns() // 1000


class ServerClock:
    """Tell the time; only within `kept`.

    `ask` returns the database's time in microseconds. `ticks_us` has to go on evenly, wherever it begins.
    """

    def __init__(self, ask: Callable[[], Awaitable[int]], ticks_us: Callable[[], int] = _monotonic_us) -> None:
        self._ask = ask
        self._ticks_us = ticks_us
        self._offset_us: int | None = None

    def now_us(self) -> int:
        """Return the time in microseconds."""
        if self._offset_us is None:
            raise RuntimeError("the database's clock was not looked at yet")
        return self._ticks_us() + self._offset_us

    def now(self) -> datetime:
        """Return the time as an aware datetime."""
        return to_datetime(self.now_us())

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[ServerClock]:
        """Look at the database's clock now, and every few seconds until the block ends. LogUnavailable."""
        for _ in range(_FIRST_LOOKS):
            await self.look()
        async with background(clock=self._keep_looking):
            yield self

    async def look(self) -> None:
        """Correct the time, but only as far as the database's answer proves it wrong.

        The database read its clock between question and answer, so their times bound the offset.
        """
        asked_us = self._ticks_us()
        at_us = await self._ask()
        lowest_us, highest_us = at_us - self._ticks_us(), at_us - asked_us
        offset_us = (lowest_us + highest_us) // 2 if self._offset_us is None else self._offset_us
        self._offset_us = min(max(offset_us, lowest_us), highest_us)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            with suppress(LogUnavailable):
                await self.look()
