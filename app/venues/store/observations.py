"""Observations of pools, and what their providers tell of machines that they took back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from app.platform.database.database import Database
from app.venues.rules.history import PoolName
from app.venues.rules.observed import Sighting, SightingKind
from app.venues.rules.rates import ProviderRate, RateKind
from app.venues.store.prices import pools_of

_KEEP = "SELECT id FROM venue WHERE id = %(venue)s FOR KEY SHARE"
"""The venue is not removed until what is added to it is committed."""
_ADD = """
INSERT INTO pool_observation (pool_id, instance, at_us, kind)
SELECT * FROM unnest(%(pools)s::int[], %(instances)s::text[], %(at_us)s::bigint[], %(kinds)s::text[])
ON CONFLICT DO NOTHING RETURNING pool_id
"""
_TOUCH = """
UPDATE venue SET version = version + 1, changed_at = now(),
    observed_us = greatest(coalesce(observed_us, 0), %(at_us)s),
    pool_count = (SELECT count(*) FROM pool WHERE venue_id = %(venue)s)
WHERE id = %(venue)s
"""
_SEEN = """
SELECT pool_id, instance, at_us, kind FROM pool_observation
WHERE pool_id = ANY(%(pools)s) AND at_us BETWEEN %(first)s AND %(last)s
AND (pool_id, instance, at_us, kind) > (%(pool)s::int, %(instance)s::text, %(at)s::bigint, %(kind)s::text)
ORDER BY pool_id, instance, at_us, kind LIMIT %(limit)s
"""
_LAST_LEFT_OUT = """
SELECT at_us FROM pool_observation WHERE pool_id = ANY(%(pools)s) AND at_us BETWEEN %(first)s AND %(last)s
ORDER BY at_us DESC OFFSET %(most)s LIMIT 1
"""
_RATES = "SELECT region, zone, instance_type, product, at_us, kind, share FROM provider_rate WHERE venue_id = %(venue)s"
MOST_SEEN = 500_000
_POOLS_AT_ONCE, _ROWS_AT_ONCE = 200, 5_000
"""So many are read at a time, so that whoever reads all keeps no other request of the process waiting."""


class VenueGone(Exception):
    """The venue was removed meanwhile."""


class ObservationStore:
    """Observations of pools, in any order and any number of times."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, venue_id: int, seen: Sequence[Sighting]) -> int:
        """Add what was seen, and pools that are not there yet; return how much of it was new.

        The rows are in one order, so that two who tell the same do not wait for each other. Raises VenueGone,
        TooManyPools.
        """
        seen = sorted(seen)
        async with self._database.transaction() as session:
            if not await session.execute(_KEEP, {"venue": venue_id}):
                raise VenueGone
            ids = await pools_of(session, venue_id, dict.fromkeys(one.pool for one in seen))
            given = {
                "pools": [ids[one.pool] for one in seen],
                "instances": [one.instance for one in seen],
                "at_us": [one.at_us for one in seen],
                "kinds": [one.kind.value for one in seen],
            }
            new = len(await session.execute(_ADD, given))
            if new:
                await session.execute(_TOUCH, {"venue": venue_id, "at_us": max(one.at_us for one in seen)})
        return new

    async def seen(self, pools: Mapping[int, PoolName], first_us: int, last_us: int) -> list[Sighting]:
        """Return what was seen of pools, named by their ids, between two times: the newest half a million of it."""
        ids, found = sorted(pools), list[Sighting]()
        asked = {"pools": ids, "first": first_us, "last": last_us, "most": MOST_SEEN}
        cut = await self._database.execute(_LAST_LEFT_OUT, asked)
        first_us = cut[0][0] + 1 if cut else first_us
        for begin in range(0, len(ids), _POOLS_AT_ONCE):
            async for rows in self._pages(ids[begin : begin + _POOLS_AT_ONCE], first_us, last_us):
                found += await asyncio.to_thread(_sightings, pools, rows)
        return found

    async def _pages(self, pools: Sequence[int], first_us: int, last_us: int) -> AsyncIterator[Sequence[Sequence[Any]]]:
        last: Sequence[Any] = (0, "", 0, "")
        while True:
            asked = {"pools": pools, "first": first_us, "last": last_us, "limit": _ROWS_AT_ONCE}
            after = dict(zip(("pool", "instance", "at", "kind"), last, strict=True))
            rows = await self._database.execute_directly(_SEEN, asked | after)
            yield rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            last = rows[-1]

    async def rates(self, venue_id: int, providers: Iterable[str]) -> dict[PoolName, ProviderRate]:
        """Return what was told of pools of these providers; the region as a zone stands for all of its zones.

        A rate is kept without its provider, so it counts for each of them.
        """
        rows = await self._database.execute(_RATES, {"venue": venue_id})
        return {
            PoolName(provider, *row[:4]): ProviderRate(row[4], RateKind(row[5]), row[6])
            for provider in providers
            for row in rows
        }


def _sightings(pools: Mapping[int, PoolName], rows: Iterable[Sequence[Any]]) -> list[Sighting]:
    return [Sighting(pools[row[0]], row[1], row[2], SightingKind(row[3])) for row in rows]
