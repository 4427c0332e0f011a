"""The bills of machines that a cluster bought at venues: their times as its manager told, the prices of the venue."""

from __future__ import annotations

from collections.abc import Sequence

from app.clusters.described import PoolSpec
from app.clusters.keeping import KnownCluster
from app.clusters.rules.bids import Bill, HourPrices, ToldBid, bill_of
from app.clusters.rules.costs import price_micro
from app.domain.errors import PoolNotFound, VenueNotFound
from app.venues.pricereads import PoolWords, PriceReads
from app.venues.reads import VenueReads
from app.venues.rules.poolwords import LINUX
from app.venues.rules.rates import RevokedBy


class BidCosts:
    """Reads the bills of clusters."""

    def __init__(self, venues: VenueReads, prices: PriceReads) -> None:
        self._venues, self._prices = venues, prices

    async def read(self, cluster: KnownCluster) -> dict[str, Bill]:
        """Return the bills of the pools at venues, now. Without any price of a pool, it is 0."""
        bids = [*cluster.past.bids]
        found = {}
        for pool in cluster.spec.pools:
            if pool.is_bid:
                of_pool = [bid for bid in bids if bid.pool == pool.name]
                found[pool.name] = await self._bill(pool, of_pool, cluster.now_us)
        return found

    async def _bill(self, pool: PoolSpec, bids: Sequence[ToldBid], now_us: int) -> Bill:
        told = pool.price.on_demand_micro
        try:
            venue, known = await self._prices.pool(pool.cloud, words_of(pool))
        except (PoolNotFound, VenueNotFound):
            return bill_of(bids, HourPrices((0,), (0,)), told, now_us, is_by_hour=True)
        on_demand = _micro(known.on_demand) if told is None else told
        from_us = min((bid.from_us for bid in bids), default=now_us)
        rows = await self._prices.between(known, from_us, now_us) if bids else []
        prices = HourPrices([one.at_us for one in rows] or [0], [one.micro for one in rows] or [0])
        return bill_of(bids, prices, on_demand, now_us, is_by_hour=venue.revoked_by is RevokedBy.PRICE)


def _micro(price: float | None) -> int | None:
    return None if price is None else price_micro(price)


def words_of(pool: PoolSpec) -> PoolWords:
    """Return the words that name a pool in its venue."""
    return PoolWords(pool.flavor, pool.zone or "", pool.product or LINUX)
