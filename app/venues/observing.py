"""Observations of a venue's pools, where machines end for lack of capacity. They are read once for each change."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.domain.times import DAY_US
from app.venues.rules.history import PoolName
from app.venues.rules.observed import ObservedPools, Sighting, runs_of
from app.venues.rules.pricefiles import AHEAD_US
from app.venues.rules.rates import ProviderRate
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import StoredPool, StoredVenue

_OBSERVED_DAYS = 365
_KEPT = 2


class SeenPools(NamedTuple):
    """The knowledge of survival; `is_newest`: the venue holds nothing that was seen later."""

    observed: ObservedPools
    is_newest: bool


class ObservedReads:
    """Reads what was observed, and what providers told. `now_us` is the server's clock."""

    def __init__(self, store: ObservationStore, now_us: Callable[[], int]) -> None:
        self._store, self._now_us = store, now_us
        self._kept = OrderedDict[tuple[int, int, int], tuple[int, ObservedPools]]()
        self._turn = asyncio.Lock()

    async def of(self, venue: StoredVenue, pools: Sequence[StoredPool], at_us: int) -> SeenPools:
        """Return what is known of all pools of a venue by a time, from the 365 days before its day on."""
        key = venue.id, venue.version, at_us // DAY_US
        async with self._turn:
            newest_us, kept = self._kept.get(key, (0, None))
            if kept is not None and at_us >= newest_us:
                return SeenPools(kept, is_newest=True)
            now_us = self._now_us()
            last_us = at_us if at_us < now_us - DAY_US else now_us + AHEAD_US  # nothing is ever seen later
            names = {pool.id: pool.name for pool in pools}
            seen = await self._store.seen(names, (at_us // DAY_US - _OBSERVED_DAYS) * DAY_US, last_us)
            rates = await self._store.rates(venue.id, sorted({name.provider for name in names.values()}))
            observed, newest_us = await asyncio.to_thread(_observed, seen, rates, at_us)
            is_newest = newest_us <= at_us < last_us
            if is_newest:
                self._kept[key] = newest_us, observed
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return SeenPools(observed, is_newest)


def _observed(
    seen: Sequence[Sighting], rates: Mapping[PoolName, ProviderRate], at_us: int
) -> tuple[ObservedPools, int]:
    """Return what is known by a time, and the time of the newest thing seen, which may be later; 0 if there is none.

    An instance of which no end was told lives until the newest observation by then.
    """
    until_us = max((one.at_us for one in seen if one.at_us <= at_us), default=at_us)
    return ObservedPools(runs_of(seen, until_us), rates), max((one.at_us for one in seen), default=0)
