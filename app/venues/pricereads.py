"""The prices of one pool of a venue: as they were told, and as the history that an estimate looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.domain.errors import HistoryTooShort, PoolNotFound
from app.domain.paging import Page
from app.domain.times import DAY_US, time_text, to_datetime
from app.venues.quoting import WINDOW_US
from app.venues.reads import BEFORE_US, StoredPool, StoredVenue, VenueReads
from app.venues.rules.history import PriceSteps, steps_of
from app.venues.store.prices import VenuePriceStore

_AT_ONCE_US = 31 * DAY_US
"""A page of prices spans so much time at most."""


class PoolWords(NamedTuple):
    """The words that name a pool among those of its venue."""

    instance_type: str
    zone: str
    product: str


class ToldPrice(NamedTuple):
    """A price in millionths of the venue's currency an hour, from this time on."""

    at_us: int
    micro: int


@dataclass(frozen=True, slots=True)
class PoolPrices:
    """Prices of a pool by rising time."""

    venue: StoredVenue
    pool: StoredPool
    prices: Page[ToldPrice]


class PriceReads:
    """Reads prices of single pools. Raises VenueNotFound and PoolNotFound."""

    def __init__(self, store: VenuePriceStore, venues: VenueReads) -> None:
        self._store, self._venues = store, venues

    async def pool(self, name: str, words: PoolWords) -> tuple[StoredVenue, StoredPool]:
        """Return a venue and the pool that these words name: of several providers the one with the newest price."""
        venue = await self._venues.show(name)
        found = await self._store.pools(venue.id, 0, 100, instance_type=words.instance_type, zone=words.zone)
        if fit := [pool for pool in found if pool.name.product == words.product]:
            return venue, max(fit, key=lambda pool: pool.price_us or 0)
        others = ", ".join(sorted({repr(pool.name.product) for pool in found}))
        there = f"; there it has {others}" if others else ""
        raise PoolNotFound(f"venue {name!r} has no {words.instance_type} {words.product!r} in {words.zone}{there}")

    async def prices(self, name: str, words: PoolWords, from_us: int, limit: int) -> PoolPrices:
        """Return the price that holds at a time, and those after it. The marker is the time of the next one."""
        venue, pool = await self.pool(name, words)
        newest_us, to_us = pool.price_us or from_us, from_us + _AT_ONCE_US
        found = await self.between(pool, from_us, min(newest_us, to_us))
        next_us = found[limit].at_us if len(found) > limit else to_us + 1 if newest_us > to_us else None
        return PoolPrices(
            venue, pool, Page(found[:limit], None if next_us is None else to_datetime(next_us).isoformat())
        )

    async def between(self, pool: StoredPool, from_us: int, to_us: int) -> list[ToldPrice]:
        """Return the price that holds at a time, if it was told at most two days before, and those up to another."""
        days = await self._store.days_of_pool(pool.id, from_us - BEFORE_US, to_us)
        every = [ToldPrice(*one) for day in days for one in zip(day.at_us, day.micro, strict=True)]
        holding = max((one.at_us for one in every if one.at_us <= from_us), default=from_us)  # the last one before
        return [one for one in every if holding <= one.at_us <= to_us]

    async def history(self, venue: StoredVenue, pool: StoredPool, at_us: int) -> PriceSteps:
        """Return what was known of a pool's prices at a time. Raises HistoryTooShort if that is nothing."""
        days = await self._store.days_of_pool(pool.id, at_us - WINDOW_US - BEFORE_US, at_us)
        told = _columns([one for day in days for one in zip(day.at_us, day.micro, strict=True) if one[0] <= at_us])
        if not len(told[0]):
            since, until = time_text(at_us - WINDOW_US - BEFORE_US), time_text(at_us)
            raise HistoryTooShort(
                f"venue {venue.name!r} has no price of {pool.name} between {since} and {until}; import newer ones, or "
                "ask with `at` (`--at` of the command) for an earlier time"
            )
        return steps_of(*told, await self._store.gaps(venue.id), at_us)


def _columns(rows: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
