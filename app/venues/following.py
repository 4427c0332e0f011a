"""Prices that are followed: a provider is asked again and again, and what it tells is imported.

A poll asks from an hour before the newest price that is known, so what came late is not missed. What it answers is
written whole or not at all. The answer tells every change up to now, so each pool's last price is also written down at
the last full hour: a pool whose price rests is known to rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from app.domain.inputs import InputError
from app.domain.times import HOUR_US, to_datetime
from app.platform.outbound.aws import FeedFailed, SpotPriceSource
from app.platform.telemetry.metrics import FEED_AGE_S, FEED_FAILURES
from app.venues.imports import MOST_PRICES, ImportedPrices, VenueImports
from app.venues.rules.pricefiles import PriceRows, region_of
from app.venues.rules.rates import RevokedBy
from app.venues.store.feeds import FeedStore
from app.venues.store.prices import StoredVenue, VenuePriceStore

_PROVIDER = "aws"
_AGAIN_US = HOUR_US


class VenueFollowing:
    """Follows the prices of venues. `now_us` is the server's clock."""

    def __init__(self, store: VenuePriceStore, feeds: FeedStore, now_us: Callable[[], int]) -> None:
        self._store, self._feeds, self._now_us = store, feeds, now_us
        self._imports = VenueImports(store)

    async def poll(self, name: str, source: SpotPriceSource, back_us: int) -> ImportedPrices:
        """Bring a venue up to now; in a new one, which is made with its first prices, go back so far.

        Raises FeedFailed after it was noted, in a venue without prices if there was none; prices from before stay.
        """
        venue, now_us = await self._store.get(name), self._now_us()
        last_us = None if venue is None else venue.last_us
        begin_us = now_us - back_us if last_us is None else min(last_us, now_us) - _AGAIN_US
        try:
            rows = await asyncio.to_thread(_read, source, begin_us, now_us)
            done = await self._imports.run(name, rows, {}, [], _ends_by(venue))
        except (FeedFailed, InputError) as error:
            venue = venue or (await self._imports.run(name, PriceRows(now_us), {}, [], _ends_by(venue))).venue
            await self._feeds.note(venue.id, _PROVIDER, source.region, str(error))
            raise FeedFailed(str(error)) from error
        await self._feeds.note(done.venue.id, _PROVIDER, source.region, None)
        return done


def _ends_by(venue: StoredVenue | None) -> RevokedBy | None:
    """Return what is told of a venue's machines: a new one is of today, when a lack of capacity ends them."""
    return RevokedBy.CAPACITY if venue is None else None


def _read(source: SpotPriceSource, begin_us: int, now_us: int) -> PriceRows:
    """Return what a provider tells, with each pool's price at the last full hour."""
    rows = PriceRows(now_us)
    for count, entry in enumerate(source.since(to_datetime(begin_us)), 1):
        if count > MOST_PRICES:
            raise FeedFailed(f"the provider told more than {MOST_PRICES:,} prices")
        _take(rows, count, entry)
    if not rows.rows:
        raise FeedFailed(f"the provider told no price of {source.region}")
    hour_us = now_us // HOUR_US * HOUR_US
    for at_us, micro in rows.rows.values():
        known = [place for place, one_us in enumerate(at_us) if one_us <= hour_us]
        if known:
            last = max(known, key=lambda place: (at_us[place], micro[place]))
            micro.append(micro[last])
            at_us.append(hour_us)
    return rows


def _take(rows: PriceRows, number: int, entry: Mapping[str, Any]) -> None:
    zone = entry.get("AvailabilityZone") or entry.get("AvailabilityZoneId")
    region = region_of(zone) if isinstance(zone, str) else ""
    words = _PROVIDER, region, zone, entry.get("InstanceType"), entry.get("ProductDescription")
    at = entry.get("Timestamp")
    rows.take(number, words, None if at is None else at.isoformat(), entry.get("SpotPrice"), "USD")


class FeedWatch:
    """Tells the metrics of all feeds. Feeds are polled by a process of their own, which nobody scrapes."""

    def __init__(self, feeds: FeedStore) -> None:
        self._feeds = feeds

    async def watch_feeds(self) -> None:
        """Read how old each feed is."""
        ages = await self._feeds.ages()
        for metric in (FEED_AGE_S, FEED_FAILURES):
            metric.clear()
        for one in ages:
            FEED_AGE_S.labels(one.venue).set(one.age_s)
            FEED_FAILURES.labels(one.venue).set(one.failures)
