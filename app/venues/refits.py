"""Refits of the learned survival: runs of the worker, one at a time for each venue, whatever many workers there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from app.domain.errors import LogUnavailable
from app.platform.database.lockids import refit_lock
from app.platform.database.locks import Locks
from app.platform.telemetry.metrics import VENUE_REFITS
from app.venues.quoting import WINDOW_US
from app.venues.reads import BEFORE_US, rows_until
from app.venues.rules.history import SilentStretch, venue_of
from app.venues.rules.training import TrainedSurvival, priced, train
from app.venues.store.models import Refit, VenueModels
from app.venues.store.prices import PoolPast, StoredPool, VenuePriceStore

logger = logging.getLogger(__name__)


class VenueRefits:
    """Fits models that are due."""

    def __init__(self, store: VenuePriceStore, models: VenueModels, locks: Locks) -> None:
        self._store, self._models, self._locks = store, models, locks

    async def refit_venues(self) -> None:
        """Request what is due, and execute what is asked for. What another worker has at hand is left to it."""
        await self._models.request_due()
        for run in await self._models.pending():
            async with self._locks.held(refit_lock(run.venue_id)) as hold:
                started_at = None if hold is None else await self._models.start(run)
                if started_at is None:
                    continue
                try:
                    await self._models.finish(run, started_at, await self._trained(run))
                except LogUnavailable:
                    raise
                except Exception as error:
                    VENUE_REFITS.labels("failed").inc()
                    logger.exception("the model of venue %s was not fitted", run.venue_id)
                    await self._models.fail(run, started_at, f"{type(error).__name__}: {error}"[:500])
                else:
                    VENUE_REFITS.labels("succeeded").inc()

    async def _trained(self, run: Refit) -> TrainedSurvival | None:
        """Return the model of what was known at the run's time; None if the past is too short."""
        first_us = run.until_us - 2 * WINDOW_US - BEFORE_US
        pools, gaps = await self._store.pools(run.venue_id, 0, 1 << 30), await self._store.gaps(run.venue_id)
        pasts = await self._store.pasts(pools, first_us, run.until_us)
        return await asyncio.to_thread(_train, pasts, pools, gaps, run.until_us)


def _train(
    pasts: Sequence[PoolPast], pools: Sequence[StoredPool], gaps: Sequence[SilentStretch], until_us: int
) -> TrainedSurvival | None:
    known = venue_of(rows_until(pasts, pools, until_us), gaps).pools
    if not known:
        return None
    told = {pool.name: pool.on_demand for pool in pools}
    return train(priced([*known.values()], [told[name] for name in known], WINDOW_US), until_us)
