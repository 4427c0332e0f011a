"""First tables of clouds that are being imported: their logs are read while they grow.

To read and fold a long log takes as long as to write it. A worker that begins when the import does has little left to
read at its end, so the first table is there as soon as the cloud is.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from app.forecasts.recompute import Forecasts
from app.platform.database.lockids import forecast_lock
from app.platform.database.locks import Locks
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.conflicts import PredecessorMissing

_LOOK_S = 0.2
_QUIET_S = 10.0
"""An import that wrote nothing for so long was cut off, or waits. The lock is not kept for it."""


class ReadingAhead:
    """Follows imports, one worker each: it holds the cloud's forecast lock, under which it computes the first table."""

    def __init__(self, clouds: Clouds, forecasts: Forecasts, locks: Locks) -> None:
        self._clouds = clouds
        self._forecasts = forecasts
        self._locks = locks
        self._followed: set[int] = set()

    async def follow_imports(self) -> int:
        """Follow the imports that run now to their ends; return how many. Those that are followed already are left out.

        Call it often, and again while an earlier call still follows.
        """
        found = await self._clouds.importing() - self._followed
        self._followed |= found
        await asyncio.gather(*(self._follow(cloud_id) for cloud_id in found))
        return len(found)

    async def _follow(self, cloud_id: int) -> None:
        try:
            async with self._locks.held(forecast_lock(cloud_id)) as hold:
                is_over = hold is not None and await self._read(cloud_id)
        finally:
            self._followed.discard(cloud_id)
        if is_over:  # the request for the table came while the lock was held
            await self._forecasts.run_pending()

    async def _read(self, cloud_id: int) -> bool:
        """Read the log as it grows; return True if the import is over, and all of it is read."""
        grew_s: float | None = None
        while True:
            is_over = cloud_id not in await self._clouds.importing()
            try:
                count = await self._forecasts.read_ahead(cloud_id)
            except PredecessorMissing:  # the import was given up, and another one began
                return False
            if count:
                grew_s = monotonic()
            elif is_over:
                return True
            elif grew_s is None or monotonic() - grew_s > _QUIET_S:
                return False
            else:
                await asyncio.sleep(_LOOK_S)
