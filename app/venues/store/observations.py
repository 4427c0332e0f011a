"""Observations of pools, and what their providers tell of machines that they took back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from app.platform.database.database import Database
from app.venues.rules.history import PoolName
from app.venues.rules.observed import SeenOne, Sighting, SightingKind
from app.venues.rules.rates import ProviderRate, RateKind
from app.venues.store.prices import pools_of

_KEEP = "SELECT id FROM venue WHERE id = %(venue)s FOR KEY SHARE"
"""The venue is not removed until what is added to it is committed."""
_ADD = """
INSERT INTO pool_observation (pool_id, instance, at_us, kind)
SELECT * FROM unnest(%(pools)s::int[], %(instances)s::text[], %(at_us)s::bigint[], %(kinds)s::text[])
ON CONFLICT DO NOTHING RETURNING pool_id
"""
_ALONE = "SELECT id FROM venue WHERE id = %(venue)s FOR NO KEY UPDATE"
"""A count of the pools after it counts those that others have just added."""
_TOUCH = """
UPDATE venue SET changed_at = now(), observed_us = greatest(coalesce(observed_us, 0), %(at_us)s), pool_count = pools,
    version = version + (revoked_by = 'capacity' OR pool_count <> pools)::int
FROM (SELECT count(*) AS pools FROM pool WHERE venue_id = %(venue)s) AS counted WHERE id = %(venue)s
"""
"""No answer depends on observations where a price ends machines."""
_COUNTED = """
SELECT pool_id, count(*), count(*) FILTER (WHERE at_us <= %(until)s), max(at_us) FROM pool_observation
WHERE pool_id = ANY(%(pools)s) AND at_us BETWEEN %(first)s AND %(last)s GROUP BY pool_id
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


_KINDS = {kind.value: kind for kind in SightingKind}
SeenOfPools = Mapping[int, Sequence[SeenOne]]
"""Observations, by the id of their pool."""


class SeenCounts(NamedTuple):
    """The number of observations of each pool, by its id, from a time on; the newest of all may be of a later time."""

    first_us: int
    newest_us: int
    by_pool: Mapping[int, int]


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
                await session.execute(_ALONE, {"venue": venue_id})
                await session.execute(_TOUCH, {"venue": venue_id, "at_us": max(one.at_us for one in seen)})
        return new

    async def counted(self, pools: Sequence[int], first_us: int, until_us: int, last_us: int) -> SeenCounts:
        """Return how much was seen of pools from `first_us` to `until_us`.

        Of what was seen up to `last_us` only the newest half a million counts, which then begins later.
        """
        asked = {"pools": pools, "first": first_us, "until": until_us, "last": last_us, "most": MOST_SEEN}
        rows = await self._database.execute_directly(_COUNTED, asked)
        if sum(row[1] for row in rows) > MOST_SEEN:
            for [left_out_us] in await self._database.execute(_LAST_LEFT_OUT, asked):
                first_us = left_out_us + 1
            rows = await self._database.execute_directly(_COUNTED, asked | {"first": first_us})
        newest_us = max((row[3] for row in rows), default=0)
        return SeenCounts(first_us, newest_us, {row[0]: row[2] for row in rows if row[2]})

    async def seen(self, pools: Collection[int], first_us: int, until_us: int) -> AsyncIterator[SeenOfPools]:
        """Yield what was seen of pools between two times, by pool, some pools at a time; each pool once."""
        ids = sorted(pools)
        for begin in range(0, len(ids), _POOLS_AT_ONCE):
            found = defaultdict[int, list[SeenOne]](list)
            async for rows in self._pages(ids[begin : begin + _POOLS_AT_ONCE], first_us, until_us):
                await asyncio.to_thread(_sort_in, found, rows)
            yield found

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


def _sort_in(found: dict[int, list[SeenOne]], rows: Iterable[Sequence[Any]]) -> None:
    for pool_id, instance, at_us, kind in rows:
        found[pool_id].append(SeenOne(instance, at_us, _KINDS[kind]))
