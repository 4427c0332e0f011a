"""The bills of machines that a cluster bought at venues: their times as its manager told, the prices of the venue.

A bill is added up at every read of the cost, and of the metrics. Prices are fetched once for each import, for however
long a machine has run, and a month at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from app.clusters.described import PoolSpec
from app.clusters.keeping import KnownCluster
from app.clusters.rules.bids import Bill, HourPrices, ToldBid, bill_of
from app.clusters.rules.costs import price_micro
from app.domain.errors import PoolNotFound, VenueNotFound
from app.domain.times import DAY_US
from app.venues.pricereads import PoolWords, PriceReads
from app.venues.reads import VenueReads
from app.venues.rules.poolwords import LINUX
from app.venues.rules.rates import RevokedBy
from app.venues.store.prices import StoredPool, StoredVenue

_KEPT = 100
"""The prices of so many pools of clusters are kept."""
_AT_ONCE_US = 31 * DAY_US


class _KeptPrices(NamedTuple):
    """The prices of a pool from a time on, as an import left them."""

    version: int
    from_us: int
    prices: HourPrices


class BidCosts:
    """Reads the bills of clusters."""

    def __init__(self, venues: VenueReads, prices: PriceReads) -> None:
        self._venues, self._prices = venues, prices
        self._kept = OrderedDict[tuple[str, int], _KeptPrices]()

    async def read(self, cluster: KnownCluster) -> dict[str, Bill]:
        """Return the bills of the pools at venues, now. Without any price of a pool, it is 0."""
        bids = [*cluster.past.bids]
        found = {}
        for pool in cluster.spec.pools:
            if pool.is_bid:
                of_pool = [bid for bid in bids if bid.pool == pool.name]
                found[pool.name] = await self._bill(cluster, pool, of_pool)
        return found

    async def _bill(self, cluster: KnownCluster, pool: PoolSpec, bids: Sequence[ToldBid]) -> Bill:
        told, now_us = pool.price.on_demand_micro, cluster.now_us
        try:
            venue, known = await self._prices.pool(pool.cloud, words_of(pool))
        except (PoolNotFound, VenueNotFound):
            return bill_of(bids, HourPrices((0,), (0,)), told, now_us, is_by_hour=True)
        on_demand = _micro(known.on_demand) if told is None else told
        prices = HourPrices((0,), (0,))
        if bids:
            kept = await self._prices_from(
                (cluster.stored.name, known.id), venue, known, min(one.from_us for one in bids)
            )
            prices = kept.prices
        by_hour = venue.revoked_by is RevokedBy.PRICE
        return await asyncio.to_thread(bill_of, bids, prices, on_demand, now_us, is_by_hour=by_hour)

    async def _prices_from(
        self, key: tuple[str, int], venue: StoredVenue, pool: StoredPool, from_us: int
    ) -> _KeptPrices:
        """Return all known prices of a pool from a time on. They change only with an import."""
        kept = self._kept.get(key)
        if kept is None or (kept.version, kept.from_us) != (venue.version, from_us):
            kept = _KeptPrices(venue.version, from_us, await self._fetched(pool, from_us))
        self._kept[key] = kept
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept

    async def _fetched(self, pool: StoredPool, from_us: int) -> HourPrices:
        """Return prices, a month at a time. Each part begins with the price that holds."""
        at_us, micro, newest_us = list[int](), list[int](), pool.price_us or from_us
        for begin_us in range(from_us, max(newest_us, from_us) + 1, _AT_ONCE_US):
            for one in await self._prices.between(pool, begin_us, begin_us + _AT_ONCE_US):
                if not at_us or one.at_us > at_us[-1]:
                    at_us.append(one.at_us)
                    micro.append(one.micro)
        return HourPrices(at_us or [0], micro or [0])


def _micro(price: float | None) -> int | None:
    return None if price is None else price_micro(price)


def words_of(pool: PoolSpec) -> PoolWords:
    """Return the words that name a pool in its venue."""
    return PoolWords(pool.flavor, pool.zone or "", pool.product or LINUX)
