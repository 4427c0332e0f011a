"""Observations of a venue's pools, where machines end for lack of capacity.

The runs of a pool are read again when more or less was seen of it. Observations are only ever added, so a pool of
which all that is known still counts, and of which as much is counted as is known, is known.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.domain.times import DAY_US
from app.venues.rules.history import PoolName
from app.venues.rules.observed import ObservedPools, PoolRuns, runs_of_pool
from app.venues.rules.pricefiles import AHEAD_US
from app.venues.rules.rates import ProviderRate
from app.venues.store.observations import ObservationStore, SeenOfPools
from app.venues.store.prices import StoredPool, StoredVenue

_OBSERVED_DAYS = 365
_KEPT, _VENUES_KEPT = 2, 4


class SeenPools(NamedTuple):
    """The knowledge of survival; `is_newest`: the venue holds nothing that was seen later."""

    observed: ObservedPools
    is_newest: bool


class _ReadPool(NamedTuple):
    """The runs of a pool, from so many observations between two times."""

    seen: int
    oldest_us: int
    newest_us: int
    runs: PoolRuns

    def is_all_of(self, count: int, first_us: int, until_us: int) -> bool:
        return self.seen == count and first_us <= self.oldest_us and self.newest_us <= until_us


class ObservedReads:
    """Reads what was observed, and what providers told. `now_us` is the server's clock.

    One at a time asks for a venue.
    """

    def __init__(self, store: ObservationStore, now_us: Callable[[], int]) -> None:
        self._store, self._now_us = store, now_us
        self._kept = OrderedDict[tuple[int, int, int], tuple[int, ObservedPools]]()
        self._known = OrderedDict[int, dict[int, _ReadPool]]()

    async def of(self, venue: StoredVenue, pools: Sequence[StoredPool], at_us: int) -> SeenPools:
        """Return what is known of all pools of a venue by a time, from the 365 days before its day on."""
        key = venue.id, venue.version, at_us // DAY_US
        newest_us, kept = self._kept.get(key, (0, None))
        if kept is not None and at_us >= newest_us:
            return SeenPools(kept, is_newest=True)
        now_us = self._now_us()
        last_us = at_us if at_us < now_us - DAY_US else now_us + AHEAD_US  # nothing is ever seen later
        names = {pool.id: pool.name for pool in pools}
        newest_us, known = await self._pools(venue, sorted(names), at_us, last_us)
        rates = await self._store.rates(venue.id, sorted({name.provider for name in names.values()}))
        observed = await asyncio.to_thread(_observed, known, names, rates)
        is_newest = newest_us <= at_us < last_us
        if is_newest:
            self._kept[key] = newest_us, observed
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return SeenPools(observed, is_newest)

    async def _pools(
        self, venue: StoredVenue, ids: Sequence[int], at_us: int, last_us: int
    ) -> tuple[int, Mapping[int, _ReadPool]]:
        """Return the time of the newest observation, 0 if there is none, and the pools of which some is by a time."""
        first_us = (at_us // DAY_US - _OBSERVED_DAYS) * DAY_US
        first_us, newest_us, counts = await self._store.counted(ids, first_us, at_us, last_us)
        kept = self._known.pop(venue.id, {})
        self._known[venue.id] = kept
        while len(self._known) > _VENUES_KEPT:
            self._known.popitem(last=False)
        found = {
            id_: kept[id_]
            for id_, count in counts.items()
            if id_ in kept and kept[id_].is_all_of(count, first_us, at_us)
        }
        async for seen in self._store.seen(counts.keys() - found.keys(), first_us, at_us):
            found |= await asyncio.to_thread(_read_pools, seen)
        for id_, one in found.items():
            if id_ not in kept or kept[id_].newest_us <= one.newest_us:
                kept[id_] = one
        return newest_us, found


def _read_pools(seen: SeenOfPools) -> dict[int, _ReadPool]:
    found = {}
    for id_, some in seen.items():
        times = [one.at_us for one in some]
        found[id_] = _ReadPool(len(some), min(times), max(times), runs_of_pool(some))
    return found


def _observed(
    known: Mapping[int, _ReadPool], names: Mapping[int, PoolName], rates: Mapping[PoolName, ProviderRate]
) -> ObservedPools:
    """Return all runs: an instance of which no end was told lives until the newest observation."""
    until_us = max((one.newest_us for one in known.values()), default=0)
    return ObservedPools({names[id_]: one.runs.until(until_us) for id_, one in known.items()}, rates)
