"""Observations of pools, and what their providers tell of machines that they took back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
SELECT provider, region, zone, instance_type, product, instance, at_us, kind
FROM pool_observation JOIN pool ON pool.id = pool_id
WHERE venue_id = %(venue)s AND at_us BETWEEN %(first)s AND %(last)s ORDER BY at_us DESC LIMIT %(limit)s
"""
_RATES = "SELECT region, zone, instance_type, product, at_us, kind, share FROM provider_rate WHERE venue_id = %(venue)s"
_MOST_SEEN = 2_000_000


class VenueGone(Exception):
    """The venue was removed meanwhile."""


class ObservationStore:
    """Observations of pools, in any order and any number of times."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, venue_id: int, seen: Sequence[Sighting]) -> int:
        """Add what was seen, and pools that are not there yet; return how much of it was new.

        The rows are in one order, so that two who tell the same do not wait for each other. Raises VenueGone.
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

    async def seen(self, venue_id: int, first_us: int, last_us: int) -> list[Sighting]:
        """Return what was seen of a venue's pools between two times, the newest two millions of it."""
        asked = {"venue": venue_id, "first": first_us, "last": last_us, "limit": _MOST_SEEN}
        rows = await self._database.execute_directly(_SEEN, asked)
        return [Sighting(PoolName(*row[:5]), row[5], row[6], SightingKind(row[7])) for row in rows]

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
