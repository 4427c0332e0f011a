"""Venues as callers see them: their pools with the newest prices, and quotes over all pools."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from app.domain.errors import HistoryTooShort, PoolNotFound, PricesStale, TenureError, TimeAhead, VenueNotFound
from app.domain.paging import Page
from app.domain.times import DAY_US, HOUR_US, time_text
from app.engine.cluster import Ints
from app.platform.asked import TurnsAtEach
from app.platform.telemetry.metrics import VENUE_QUOTES
from app.venues.observing import ObservedReads
from app.venues.quoting import WINDOW_US, QuotedPool, QuoteQuestion, quoted_by_capacity, quoted_by_price
from app.venues.rules.bounds import FIRST_EFFECT
from app.venues.rules.curves import CurveQuestion, PoolCurves, crossing_curves, observed_curves
from app.venues.rules.history import MICRO, PoolName, PriceSteps, VenuePrices, venue_of
from app.venues.rules.observed import ObservedPools
from app.venues.rules.pricefiles import AHEAD_US
from app.venues.rules.quotes import QuoteReason
from app.venues.rules.rates import RevokedBy
from app.venues.rules.training import TrainedSurvival, priced
from app.venues.rules.types import MachineType
from app.venues.store.feeds import FeedStore, StoredFeed
from app.venues.store.models import StoredModel, VenueModels
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import PoolPast, StoredPool, StoredVenue, VenuePriceStore

MOST_AGE_US = 25 * HOUR_US
"""Providers repeat each price daily, so a newest price that is older says that nobody collects prices any more."""
BEFORE_US = 2 * DAY_US
"""Days that are read before the window, for the price at its begin."""
_MODEL_HOLDS_US = 20 * DAY_US
_HISTORIES_KEPT, _POOLS_KEPT, _QUOTES_KEPT = 2, 60_000, 200_000
_VENUES_AT_ONCE = 2
"""So many large venues are read and counted at a time: each takes room, and one must not wait for all others."""
_LONGEST_ID = 10
_TRIES = 4
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

__all__ = ["FoundCurves", "StoredFeed", "StoredModel", "StoredPool", "StoredVenue", "VenueQuotes", "VenueReads"]


@dataclass(frozen=True, slots=True)
class VenueQuotes:
    """The quotes of a venue as of its newest price, the cheapest first, pools without a bid last."""

    venue: StoredVenue
    as_of_us: int
    question: QuoteQuestion
    design_effect: int
    quotes: Sequence[QuotedPool]


class FoundCurves(NamedTuple):
    """The curves of a venue's pool as of its newest price, or as of the time that was asked for; with its past."""

    venue: StoredVenue
    pool: StoredPool
    as_of_us: int
    design_effect: int
    curves: PoolCurves
    steps: PriceSteps | None


class _KnownVenue(NamedTuple):
    pools: Sequence[StoredPool]
    prices: VenuePrices


class VenueHistory(NamedTuple):
    """A venue's past as of its newest price, which may be older than what is quoted from."""

    venue: StoredVenue
    as_of_us: int
    is_stale: bool
    pools: Sequence[StoredPool]
    prices: VenuePrices
    types: Mapping[str, MachineType]
    observed: ObservedPools | None
    """Survival by observation, where machines end for lack of capacity; None where their price ends them."""
    trained: TrainedSurvival | None
    """The learned survival, where a price ends machines and a model may speak at this time."""


class VenueStores(NamedTuple):
    """The stores of what is known of venues."""

    prices: VenuePriceStore
    feeds: FeedStore
    observations: ObservationStore
    models: VenueModels


class VenueReads:
    """Reads venues by name. Quotes are kept until the venue changes. `now_us` is the server's clock."""

    def __init__(self, stores: VenueStores, now_us: Callable[[], int]) -> None:
        self._stores, self._store, self._now_us = stores, stores.prices, now_us
        self._observing = ObservedReads(stores.observations, now_us)
        self._histories = OrderedDict[tuple[int, int, int], _KnownVenue]()
        self._pools = OrderedDict[tuple[int, int], Sequence[StoredPool]]()
        self._answers = OrderedDict[tuple[int, int, int, QuoteQuestion], VenueQuotes]()
        self._turns = TurnsAtEach(_VENUES_AT_ONCE)

    async def warm_up(self) -> None:
        """Ask what a quote asks, of no venue: a connection takes several times as long for its first of a kind."""
        nowhere = StoredPool(0, PoolName("", "", "", "", ""), None, None, None)
        await self._store.get("")
        await self._store.newest_us(0, 0)
        await self._store.pools(0, 0, 1)
        await self._store.pasts([nowhere], 0, 0)
        await self._store.gaps(0)
        await self._stores.models.of(0)

    async def list(self, marker: str | None, limit: int) -> Page[StoredVenue]:
        """Return venues by name."""
        found = await self._store.page(marker or "", limit + 1)
        return Page(found[:limit], found[limit - 1].name if len(found) > limit else None)

    async def show(self, name: str) -> StoredVenue:
        """Return a venue. Raises VenueNotFound."""
        venue = await self._store.get(name)
        if venue is None:
            raise VenueNotFound(f"there is no venue {name!r}")
        return venue

    async def feed(self, venue: StoredVenue) -> StoredFeed | None:
        """Return how a venue's feed fares, None if nobody follows it."""
        return await self._stores.feeds.of(venue.id)

    async def model(self, venue: StoredVenue) -> StoredModel | None:
        """Return the model that a venue's bids are quoted with, None before the first."""
        return await self._stores.models.of(venue.id)

    async def pools(
        self, name: str, marker: int | None, limit: int, *, instance_type: str | None = None, zone: str | None = None
    ) -> Page[StoredPool]:
        """Return a venue's pools with their newest prices."""

        async def read(venue: StoredVenue) -> Sequence[StoredPool]:
            return await self._store.pools(venue.id, marker or 0, limit + 1, instance_type=instance_type, zone=zone)

        found = await self._steady(name, read)
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)

    async def quotes(self, name: str, question: QuoteQuestion, at_us: int | None = None) -> VenueQuotes:
        """Return the quotes of all pools at a time, by default now.

        Raises VenueNotFound, TimeAhead, HistoryTooShort if there is no price by then, PricesStale if the newest one is
        too old.
        """
        asked_us = self._asked_us(at_us)
        answer = await self._steady(name, lambda venue: self._quotes(venue, question, asked_us))
        VENUE_QUOTES.labels(name).inc(len(answer.quotes))
        return answer

    def _asked_us(self, at_us: int | None) -> int:
        now_us = self._now_us()
        if at_us is not None:
            check_not_ahead(at_us, now_us)
        return now_us if at_us is None else at_us

    async def _quotes(self, venue: StoredVenue, question: QuoteQuestion, at_us: int) -> VenueQuotes:
        if venue.revoked_by is RevokedBy.CAPACITY:
            return await self._observed(venue, question, at_us)
        as_of_us = await self._as_of_us(venue, at_us)
        key = venue.id, venue.version, as_of_us, question
        answer = self._answers.get(key)
        if answer is None:
            async with self._turns.taken(venue.id):
                answer = self._answers.get(key)  # another request of the same may have had its turn
                if answer is None:
                    history = await self._history(venue, as_of_us)
                    trained = _fit_at(await self.model(venue), as_of_us)
                    found = await asyncio.to_thread(
                        quoted_by_price, history.pools, history.prices, as_of_us, question, trained
                    )
                    answer = VenueQuotes(venue, as_of_us, question, FIRST_EFFECT, found)
                    _keep(self._answers, key, answer, _QUOTES_KEPT, _quote_count)
        return answer

    async def curves(
        self, name: str, pool_id: int, bids: Sequence[float], lifetimes_us: Sequence[int], at_us: int | None = None
    ) -> FoundCurves:
        """Return the curves of a pool at a time, by default now; without bids those of the usual ones.

        Raises VenueNotFound, PoolNotFound, TimeAhead, and where prices end machines HistoryTooShort, PricesStale.
        """
        asked_us = self._asked_us(at_us)
        question = CurveQuestion(bids, lifetimes_us, FIRST_EFFECT)
        return await self._steady(name, lambda venue: self._curves(venue, pool_id, question, asked_us))

    async def _curves(self, venue: StoredVenue, pool_id: int, question: CurveQuestion, at_us: int) -> FoundCurves:
        pool = await self.pool(venue, pool_id)
        if venue.revoked_by is RevokedBy.CAPACITY:
            observed = await self.observed(venue, at_us)
            price = None if pool.micro is None else pool.micro / MICRO
            curves = await asyncio.to_thread(observed_curves, observed, pool.name, price, question)
            return FoundCurves(venue, pool, at_us, FIRST_EFFECT, curves, None)
        as_of_us = await self._as_of_us(venue, at_us)
        async with self._turns.taken(venue.id):
            known = await self._history(venue, as_of_us)
        trained = _fit_at(await self.model(venue), as_of_us)
        steps = known.prices.pools.get(pool.name)
        curves = await asyncio.to_thread(_curves, pool, steps, as_of_us, question, trained)
        return FoundCurves(venue, pool, as_of_us, FIRST_EFFECT, curves, steps)

    async def pool(self, venue: StoredVenue, pool_id: int) -> StoredPool:
        """Return a pool of a venue. Raises PoolNotFound."""
        found = await self._store.pools(venue.id, pool_id - 1, 1)
        if not found or found[0].id != pool_id:
            raise PoolNotFound(f"venue {venue.name!r} has no pool {pool_id}")
        return found[0]

    async def history(self, name: str, at_us: int) -> VenueHistory:
        """Return what is known of a venue at a time. Raises VenueNotFound, HistoryTooShort without any price."""
        return await self._steady(name, lambda venue: self._history_of(venue, at_us))

    async def _history_of(self, venue: StoredVenue, at_us: int) -> VenueHistory:
        as_of_us, types = await self._newest_us(venue, at_us), await self._store.types(venue.id)
        async with self._turns.taken(venue.id):
            known = await self._history(venue, as_of_us)
        observed, trained = None, None
        if venue.revoked_by is RevokedBy.PRICE:
            trained = _fit_at(await self.model(venue), as_of_us)
        else:
            observed = await self.observed(venue, at_us)
        is_stale = at_us - as_of_us > MOST_AGE_US
        return VenueHistory(venue, as_of_us, is_stale, known.pools, known.prices, types, observed, trained)

    async def observed(self, venue: StoredVenue, at_us: int) -> ObservedPools:
        """Return what is known of survival where machines end for lack of capacity."""
        async with self._turns.taken(venue.id):
            return (await self._observing.of(venue, await self._all_pools(venue), at_us)).observed

    async def _observed(self, venue: StoredVenue, question: QuoteQuestion, at_us: int) -> VenueQuotes:
        """Return quotes from what was observed of machines by a time, and what providers told of them.

        What was answered of the newest observations holds until there are newer ones, or for the day.
        """
        key = venue.id, venue.version, at_us // DAY_US, question
        answer = self._answers.get(key)
        if answer is None or at_us < answer.as_of_us:
            async with self._turns.taken(venue.id):
                pools = await self._all_pools(venue)
                observed, is_newest = await self._observing.of(venue, pools, at_us)
                found = await asyncio.to_thread(quoted_by_capacity, pools, observed, question)
            answer = VenueQuotes(venue, at_us, question, FIRST_EFFECT, found)
            if is_newest:
                _keep(self._answers, key, answer, _QUOTES_KEPT, _quote_count)
        return replace(answer, as_of_us=at_us)

    async def _steady(self, name: str, read: Callable[[StoredVenue], Awaitable[T]]) -> T:
        """Return what is read of a venue: anew if it was changed meanwhile, since much is read in parts.

        Raises VenueNotFound if it was removed meanwhile. One that is changed all the time is read four times.
        """
        venue = await self.show(name)
        for left in reversed(range(_TRIES)):
            before, error = venue, None
            try:
                found = await read(venue)
            except TenureError as one:
                error = one
            venue = await self.show(name)
            if not left or (venue.id, venue.version) == (before.id, before.version):
                break
        if error is not None:
            raise error
        return found

    async def _all_pools(self, venue: StoredVenue) -> Sequence[StoredPool]:
        key = venue.id, venue.version
        if key not in self._pools:
            _keep(self._pools, key, await self._store.all_pools(venue.id), _POOLS_KEPT, len)
        return self._pools[key]

    async def _as_of_us(self, venue: StoredVenue, at_us: int) -> int:
        """Return the time of the newest price by then. Raises PricesStale if that is too old."""
        newest_us = await self._newest_us(venue, at_us)
        if at_us - newest_us > MOST_AGE_US:
            raise PricesStale(
                f"the newest price of venue {venue.name!r} is of {time_text(newest_us)}, more than 25 hours before "
                f"{time_text(at_us)}; import newer ones, or ask with `at` (`--at` of the command) for "
                "an earlier time"
            )
        return newest_us

    async def _newest_us(self, venue: StoredVenue, at_us: int) -> int:
        if venue.last_us is not None and venue.last_us <= at_us:
            newest_us: int | None = venue.last_us
        else:
            newest_us = await self._store.newest_us(venue.id, at_us)
        if newest_us is None:
            raise HistoryTooShort(f"venue {venue.name!r} has no price by {time_text(at_us)}")
        return newest_us

    async def _history(self, venue: StoredVenue, as_of_us: int) -> _KnownVenue:
        key = venue.id, venue.version, as_of_us
        if key not in self._histories:
            pools = await self._all_pools(venue)
            pasts = await self._store.pasts(pools, as_of_us - WINDOW_US - BEFORE_US, as_of_us)
            gaps = await self._store.gaps(venue.id)
            prices = await asyncio.to_thread(lambda: venue_of(rows_until(pasts, pools, as_of_us), gaps))
            _keep(self._histories, key, _KnownVenue(pools, prices), _HISTORIES_KEPT)
        return self._histories[key]


def check_not_ahead(at_us: int, now_us: int) -> None:
    """Raise TimeAhead if a time that is asked for is more than five minutes after the server's."""
    if at_us > now_us + AHEAD_US:
        raise TimeAhead(f"{time_text(at_us)} is more than five minutes in the future")


def _quote_count(answer: VenueQuotes) -> int:
    return len(answer.quotes)


def pool_id(text: str) -> int:
    """Return the id of a pool as a path has it. Raises PoolNotFound."""
    if not (text.isascii() and text.isdecimal() and len(text) < _LONGEST_ID):
        raise PoolNotFound(f"there is no pool {text!r}")
    return int(text)


def rows_until(
    pasts: Sequence[PoolPast], pools: Sequence[StoredPool], until_us: int
) -> dict[PoolName, tuple[Ints, Ints]]:
    """Return the prices by pool up to a time: later ones would reveal silences that were not known by then."""
    names, found = {pool.id: pool.name for pool in pools}, {}
    for past in pasts:
        count = int(past.at_us.searchsorted(until_us, side="right"))
        if count and past.pool_id in names:
            found[names[past.pool_id]] = past.at_us[:count], past.micro[:count]
    return found


def _fit_at(model: StoredModel | None, as_of_us: int) -> TrainedSurvival | None:
    """Return a model if it may speak at a time: it has seen nothing that came later, and is not old."""
    if model is None or not 0 <= as_of_us - model.trained.until_us <= _MODEL_HOLDS_US:
        return None
    return model.trained


def _curves(
    pool: StoredPool,
    steps: PriceSteps | None,
    as_of_us: int,
    question: CurveQuestion,
    trained: TrainedSurvival | None,
) -> PoolCurves:
    if steps is None:
        return PoolCurves(None, question.lifetimes_us, why_not=QuoteReason.PRICE_UNKNOWN)
    return crossing_curves(priced([steps], [pool.on_demand], WINDOW_US), pool.on_demand, as_of_us, question, trained)


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int, size: Callable[[V], int] = lambda _: 1) -> None:
    """Keep a value, and so many of those before it that all have together at most this size."""
    kept[key] = value
    while len(kept) > 1 and sum(map(size, kept.values())) > most:
        kept.popitem(last=False)
