"""Prices of venues: an import in one transaction, and what is read of them.

A pool's prices of a day are one row with two arrays. An import merges its rows with those that are there, without what
would change nothing; of several prices of a pool at one time the highest stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from app.domain.errors import TooManyPools, VenueBusy
from app.domain.times import DAY_US
from app.engine.cluster import Ints
from app.platform.database.database import Database, Session
from app.platform.database.lockids import VENUE_LOCK
from app.venues.rules.history import PoolName, SilentStretch
from app.venues.rules.pricefiles import MOST_POOLS
from app.venues.rules.rates import ProviderRate, RevokedBy
from app.venues.rules.types import MachineType

_AT_ONCE = 50_000
"""Prices in a statement."""
_PATIENT = "SET LOCAL idle_in_transaction_session_timeout = '5min'"
"""Sending so many prices takes a busy client longer than other transactions may rest."""
_VENUE = "id, name, currency, created_at, changed_at, version, pool_count, price_count, first_us, last_us, revoked_by"
_ENTER = "INSERT INTO venue (name, currency) VALUES (%(name)s, %(currency)s) ON CONFLICT (name) DO NOTHING"
_TYPES = """
INSERT INTO machine_type (venue_id, instance_type, compute_units, memory_gib, on_demand)
SELECT %(venue)s, * FROM unnest(%(names)s::text[], %(units)s::float8[], %(memory)s::float8[], %(prices)s::float8[])
ON CONFLICT (venue_id, instance_type) DO UPDATE
SET compute_units = excluded.compute_units, memory_gib = excluded.memory_gib, on_demand = excluded.on_demand
"""
_POOLS = """
INSERT INTO pool (venue_id, provider, region, zone, instance_type, product)
SELECT %(venue)s, * FROM unnest(%(provider)s::text[], %(region)s::text[], %(zone)s::text[], %(instance_type)s::text[],
    %(product)s::text[])
ON CONFLICT (venue_id, provider, region, zone, instance_type, product) DO NOTHING RETURNING id
"""
_MERGE = f"""
WITH given AS (
    SELECT * FROM unnest(%(pools)s::int[], %(at_us)s::bigint[], %(micro)s::bigint[]) AS row (pool_id, at_us, micro)
), days AS (
    SELECT DISTINCT pool_id, at_us / {DAY_US} AS day FROM given
), every AS (
    SELECT pool_id, at_us, micro FROM given
    UNION ALL
    SELECT there.pool_id, one.at_us, one.micro FROM price_day there JOIN days USING (pool_id, day),
        unnest(there.at_us, there.micro) AS one (at_us, micro)
), kept AS (
    SELECT pool_id, at_us, max(micro) AS micro FROM every GROUP BY pool_id, at_us
)
INSERT INTO price_day (pool_id, day, at_us, micro)
SELECT pool_id, at_us / {DAY_US}, array_agg(at_us ORDER BY at_us), array_agg(micro ORDER BY at_us)
FROM kept GROUP BY 1, 2
ON CONFLICT (pool_id, day) DO UPDATE SET at_us = excluded.at_us, micro = excluded.micro
WHERE (price_day.at_us, price_day.micro) IS DISTINCT FROM (excluded.at_us, excluded.micro)
"""
_RATES = """
INSERT INTO provider_rate (venue_id, region, zone, instance_type, product, at_us, kind, share)
SELECT %(venue)s, * FROM unnest(%(region)s::text[], %(zone)s::text[], %(instance_type)s::text[], %(product)s::text[],
    %(at_us)s::bigint[], %(kind)s::text[], %(share)s::float8[])
ON CONFLICT (venue_id, region, zone, instance_type, product) DO UPDATE
SET at_us = excluded.at_us, kind = excluded.kind, share = excluded.share
WHERE provider_rate.at_us <= excluded.at_us
"""
_GAPS = """
INSERT INTO price_gap (venue_id, from_us, to_us)
SELECT %(venue)s, * FROM unnest(%(from_us)s::bigint[], %(to_us)s::bigint[])
ON CONFLICT (venue_id, from_us) DO UPDATE SET to_us = greatest(price_gap.to_us, excluded.to_us)
"""
_COUNT = f"""
WITH counted AS (
    SELECT (SELECT count(*) FROM pool WHERE venue_id = %(venue)s) AS pools,
        coalesce(sum(cardinality(at_us)), 0) AS prices,
        min(at_us[1]) AS first_us, max(at_us[cardinality(at_us)]) AS last_us
    FROM price_day JOIN pool ON pool.id = pool_id WHERE venue_id = %(venue)s
)
UPDATE venue SET version = version + 1, changed_at = now(), revoked_by = coalesce(%(revoked_by)s, revoked_by),
    pool_count = pools, price_count = prices,
    first_us = counted.first_us, last_us = counted.last_us
FROM counted WHERE id = %(venue)s RETURNING {_VENUE.replace("first_us, last_us", "venue.first_us, venue.last_us")}
"""
_OF_POOL = "pool.id, provider, region, zone, pool.instance_type, product"
_PAGE = f"""
SELECT {_OF_POOL}, newest.at_us[cardinality(newest.at_us)], newest.micro[cardinality(newest.micro)], on_demand
FROM pool LEFT JOIN machine_type USING (venue_id, instance_type)
LEFT JOIN LATERAL (
    SELECT at_us, micro FROM price_day WHERE pool_id = pool.id ORDER BY day DESC LIMIT 1
) newest ON true
WHERE venue_id = %(venue)s AND pool.id > %(after)s AND (%(type)s::text IS NULL OR instance_type = %(type)s)
AND (%(zone)s::text IS NULL OR zone = %(zone)s) ORDER BY pool.id LIMIT %(limit)s
"""
_NEWEST = """
SELECT max(one) FROM pool JOIN price_day ON pool_id = pool.id, unnest(at_us) AS one
WHERE venue_id = %(venue)s AND one <= %(at_us)s AND day = (
    SELECT max(day) FROM pool JOIN price_day ON pool_id = pool.id
    WHERE venue_id = %(venue)s AND day <= %(day)s AND at_us[1] <= %(at_us)s
)
"""
_DAYS_OF_POOL = """
SELECT pool_id, at_us, micro FROM price_day WHERE pool_id = %(pool)s AND day BETWEEN %(first)s AND %(last)s ORDER BY day
"""
_PASTS = """
SELECT pool_id, string_agg(array_send(at_us), ''::bytea ORDER BY day),
    string_agg(array_send(micro), ''::bytea ORDER BY day), array_agg(cardinality(at_us) ORDER BY day)
FROM price_day WHERE pool_id = ANY(%(pools)s) AND day BETWEEN %(first)s AND %(last)s GROUP BY pool_id ORDER BY pool_id
"""
"""A pool is one row: of thousands of small ones each takes the driver longer than what is in it."""


_POOLS_AT_ONCE, _ROWS_AT_ONCE = 50, 500
_SENT_HEAD = 20
_SENT = np.dtype([("length", ">i4"), ("value", ">i8")])
"""The answer of `array_send` for an array of bigint without nulls: five numbers of four bytes, then each value after
its length. Millions of numbers as objects of Python would take seconds, and memory that the process does not give back.
"""
_REMOVE_OF_VENUE = (
    "DELETE FROM pool_observation USING pool JOIN venue ON venue.id = venue_id "
    "WHERE pool_id = pool.id AND venue.name = %(name)s",
    *(
        f"DELETE FROM {table} USING venue WHERE venue_id = venue.id AND name = %(name)s"
        for table in ("provider_rate", "venue_model", "venue_refit", "venue_feed")
    ),
)
"""The removal of what later schemas hold of a venue; their tables refer to no earlier one."""


@dataclass(frozen=True, slots=True)
class StoredVenue:
    """A venue: `version` rises with each import; times are of its first and last price, None without any.

    `revoked_by`: what ends machines there, a price above the bid or a lack of capacity.
    """

    id: int
    name: str
    currency: str
    created_at: datetime
    changed_at: datetime
    version: int
    pool_count: int
    price_count: int
    first_us: int | None
    last_us: int | None
    revoked_by: RevokedBy


class StoredPool(NamedTuple):
    """A pool with its newest price, and the on-demand price of its machine type; None what is not known."""

    id: int
    name: PoolName
    price_us: int | None
    micro: int | None
    on_demand: float | None


class DayOfPrices(NamedTuple):
    """A pool's prices of a day: times that rise, and millionths of the currency an hour."""

    pool_id: int
    at_us: Sequence[int]
    micro: Sequence[int]


class PoolPast(NamedTuple):
    """A pool's prices of some days: times, which rise in what is read, and millionths of the currency an hour."""

    pool_id: int
    at_us: Ints
    micro: Ints


@dataclass(frozen=True, slots=True)
class GivenPrices:
    """An import's content: times and millionths by pool, machine types, gaps, rates that a provider told.

    `currency` None: it brings no price. `revoked_by` None: as the venue has it, `price` in a new one.
    """

    rows: Mapping[PoolName, tuple[Ints, Ints]]
    currency: str | None
    types: Mapping[str, MachineType]
    gaps: Sequence[SilentStretch]
    rates: Mapping[PoolName, ProviderRate]
    revoked_by: RevokedBy | None = None


class OtherCurrency(Exception):
    """The venue has prices in another currency."""


class VenuePriceStore:
    """Venues and their prices."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, name: str, given: GivenPrices) -> tuple[StoredVenue, int]:
        """Add what is given to a venue, which is made if it is not there.

        Return the venue, and how many prices it had before. All of it is written or nothing. Raises OtherCurrency.
        """
        async with self._database.transaction() as session:
            await session.execute(_PATIENT)
            await session.execute(
                "SELECT pg_advisory_xact_lock(%(a)s, %(b)s)", dict(zip("ab", VENUE_LOCK, strict=True))
            )
            await session.execute(_ENTER, {"name": name, "currency": given.currency or "USD"})
            [row] = await session.execute(f"SELECT {_VENUE} FROM venue WHERE name = %(name)s", {"name": name})
            venue = _venue(row)
            if given.currency not in {None, venue.currency}:
                raise OtherCurrency(f"venue {name!r} has prices in {venue.currency}, and these are in {given.currency}")
            await _write_types(session, venue.id, given.types)
            await _write_rates(session, venue.id, given.rates)
            await _write_prices(session, venue.id, given.rows)
            gaps = {"from_us": [gap.from_us for gap in given.gaps], "to_us": [gap.to_us for gap in given.gaps]}
            await session.execute(_GAPS, {"venue": venue.id, **gaps})
            [row] = await session.execute(_COUNT, {"venue": venue.id, "revoked_by": given.revoked_by})
        return _venue(row), venue.price_count

    async def remove(self, name: str) -> bool:
        """Remove a venue with all that is of it; False if there is none. Raises VenueBusy while prices are written."""
        async with self._database.transaction() as session:
            lock = dict(zip("ab", VENUE_LOCK, strict=True))
            [[is_free]] = await session.execute("SELECT pg_try_advisory_xact_lock(%(a)s, %(b)s)", lock)
            if not is_free:
                raise VenueBusy(f"prices are being written; venue {name!r} was not removed")
            await session.execute("SELECT id FROM venue WHERE name = %(name)s FOR UPDATE", {"name": name})
            for statement in _REMOVE_OF_VENUE:
                await session.execute(statement, {"name": name})
            return bool(await session.execute("DELETE FROM venue WHERE name = %(name)s RETURNING id", {"name": name}))

    async def page(self, after: str, limit: int) -> list[StoredVenue]:
        """Return venues after a name, by name."""
        sql = f"SELECT {_VENUE} FROM venue WHERE name > %(after)s ORDER BY name LIMIT %(limit)s"
        return [_venue(row) for row in await self._database.execute(sql, {"after": after, "limit": limit})]

    async def get(self, name: str) -> StoredVenue | None:
        """Return a venue."""
        rows = await self._database.execute(f"SELECT {_VENUE} FROM venue WHERE name = %(name)s", {"name": name})
        return _venue(rows[0]) if rows else None

    async def pools(
        self, venue_id: int, after_id: int, limit: int, *, instance_type: str | None = None, zone: str | None = None
    ) -> list[StoredPool]:
        """Return pools after an id, in the order in which they were first seen."""
        asked = {"venue": venue_id, "after": after_id, "limit": limit, "type": instance_type, "zone": zone}
        rows = await self._database.execute(_PAGE, asked)
        return [StoredPool(row[0], PoolName(*row[1:6]), *row[6:]) for row in rows]

    async def all_pools(self, venue_id: int) -> list[StoredPool]:
        """Return every pool, read in parts: whoever reads a large venue keeps no other request waiting."""
        found = list[StoredPool]()
        while True:
            some = await self.pools(venue_id, found[-1].id if found else 0, _ROWS_AT_ONCE)
            found += some
            if len(some) < _ROWS_AT_ONCE:
                return found

    async def newest_us(self, venue_id: int, at_us: int) -> int | None:
        """Return the time of the newest price of any pool at or before a time; None if there is none."""
        [[found]] = await self._database.execute(_NEWEST, {"venue": venue_id, "at_us": at_us, "day": at_us // DAY_US})
        return None if found is None else int(found)

    async def pasts(self, pools: Sequence[StoredPool], first_us: int, last_us: int) -> list[PoolPast]:
        """Return the prices of pools on the days that two times lie in, and of those between, by pool.

        Some pools at a time: all answers at once would take several times the room of what is kept of them.
        """
        found, days = list[PoolPast](), {"first": first_us // DAY_US, "last": last_us // DAY_US}
        for begin in range(0, len(pools), _POOLS_AT_ONCE):
            some = [pool.id for pool in pools[begin : begin + _POOLS_AT_ONCE]]
            rows = await self._database.execute_directly(_PASTS, {"pools": some, **days})
            found += await asyncio.to_thread(_pasts, rows)
        return found

    async def days_of_pool(self, pool_id: int, first_us: int, last_us: int) -> list[DayOfPrices]:
        """Return the prices of one pool on the days that two times lie in, and of those between, by time."""
        asked = {"pool": pool_id, "first": first_us // DAY_US, "last": last_us // DAY_US}
        return [DayOfPrices(*row) for row in await self._database.execute(_DAYS_OF_POOL, asked)]

    async def types(self, venue_id: int) -> dict[str, MachineType]:
        """Return the machine types that were told, by name."""
        sql = "SELECT instance_type, compute_units, memory_gib, on_demand FROM machine_type WHERE venue_id = %(venue)s"
        return {row[0]: MachineType(*row[1:]) for row in await self._database.execute(sql, {"venue": venue_id})}

    async def gaps(self, venue_id: int) -> list[SilentStretch]:
        """Return the gaps that were told, by time."""
        sql = "SELECT from_us, to_us FROM price_gap WHERE venue_id = %(venue)s ORDER BY from_us"
        return [SilentStretch(*row) for row in await self._database.execute(sql, {"venue": venue_id})]


def _pasts(rows: Iterable[Sequence[Any]]) -> list[PoolPast]:
    return [PoolPast(pool_id, _sent(at_us, counts), _sent(micro, counts)) for pool_id, at_us, micro, counts in rows]


def _sent(arrays: bytes, counts: Sequence[int]) -> Ints:
    """Return the values of arrays of so many values, one after the other."""
    parts, begin = [], 0
    for count in counts:
        begin += _SENT_HEAD
        parts.append(arrays[begin : begin + count * _SENT.itemsize])
        begin += count * _SENT.itemsize
    return np.frombuffer(b"".join(parts), _SENT)["value"].astype(np.int64)


def _venue(row: Sequence[Any]) -> StoredVenue:
    venue = StoredVenue(*row)
    return replace(venue, revoked_by=RevokedBy(venue.revoked_by))


async def _write_types(session: Session, venue_id: int, types: Mapping[str, MachineType]) -> None:
    units, memory, prices = zip(*types.values(), strict=True) if types else ((), (), ())
    columns = {"names": list(types), "units": list(units), "memory": list(memory), "prices": list(prices)}
    await session.execute(_TYPES, {"venue": venue_id, **columns})


async def _write_rates(session: Session, venue_id: int, rates: Mapping[PoolName, ProviderRate]) -> None:
    words = {word: [getattr(name, word) for name in rates] for word in PoolName._fields if word != "provider"}
    told = {word: [getattr(one, word) for one in rates.values()] for word in ProviderRate._fields}
    await session.execute(_RATES, {"venue": venue_id, **words, **told})


async def pools_of(session: Session, venue_id: int, names: Iterable[PoolName]) -> dict[PoolName, int]:
    """Return the ids of all pools of a venue; those named are made if they are not there, always in one order.

    Raises TooManyPools.
    """
    named = sorted(names)
    words = {word: [getattr(name, word) for name in named] for word in PoolName._fields}
    new = await session.execute(_POOLS, {"venue": venue_id, **words})
    sql = f"SELECT {_OF_POOL} FROM pool WHERE venue_id = %(venue)s"
    found = {PoolName(*row[1:]): row[0] for row in await session.execute(sql, {"venue": venue_id})}
    if new and len(found) > MOST_POOLS:
        raise TooManyPools(f"the venue would have more than {MOST_POOLS:,} pools")
    return found


async def _write_prices(session: Session, venue_id: int, rows: Mapping[PoolName, tuple[Ints, Ints]]) -> None:
    """Merge the prices that are new, some of them at a time: as lists they take ten times the room."""
    if not rows:
        return
    ids = await pools_of(session, venue_id, rows)
    given = [PoolPast(ids[name], *pair) for name, pair in rows.items() if len(pair[0])]
    new = [
        one
        for begin in range(0, len(given), _POOLS_AT_ONCE)
        for one in await _new_of(session, given[begin : begin + _POOLS_AT_ONCE])
    ]
    if not new:
        return
    pools = np.repeat([one.pool_id for one in new], [len(one.at_us) for one in new])
    times, prices = (np.concatenate([one[column] for one in new]) for column in (1, 2))
    for begin in range(0, len(pools), _AT_ONCE):
        part = {"pools": pools, "at_us": times, "micro": prices}
        await session.execute(
            _MERGE, {word: _literal(column[begin : begin + _AT_ONCE]) for word, column in part.items()}
        )


async def _new_of(session: Session, given: Sequence[PoolPast]) -> list[PoolPast]:
    """Return those prices of some pools that would change what is stored, while nobody else may write any."""
    first_us, last_us = min(int(one.at_us.min()) for one in given), max(int(one.at_us.max()) for one in given)
    asked = {"pools": [one.pool_id for one in given], "first": first_us // DAY_US, "last": last_us // DAY_US}
    stored = await asyncio.to_thread(_pasts, await session.execute_directly(_PASTS, asked))
    there = {one.pool_id: one for one in stored}
    return [_without(one, there[one.pool_id]) if one.pool_id in there else one for one in given]


def _without(given: PoolPast, there: PoolPast) -> PoolPast:
    """Return the prices that are not there, or lower there. Those that are there have times that rise."""
    place = np.minimum(np.searchsorted(there.at_us, given.at_us), len(there.at_us) - 1)
    is_new = (there.at_us[place] != given.at_us) | (there.micro[place] < given.micro)
    return PoolPast(given.pool_id, given.at_us[is_new], given.micro[is_new])


def _literal(numbers: Ints) -> str:
    """Return an array as PostgreSQL writes it; the driver would take each number by itself, ten times as long."""
    return f"{{{str(numbers.tolist())[1:-1]}}}"
