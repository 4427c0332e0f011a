"""Advice on checkpoints for a job on a machine that was bought at a venue under a bid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from app.clusters.advising import moments_ahead
from app.clusters.rules.advice import AdviceTerms, Hazards, Plan, fault_in, plan_checkpoints
from app.clusters.rules.bidding import PriceAbove, hazards_observed, hazards_under_bid
from app.domain.errors import AdviceImpossible, AdviceTermsInvalid
from app.venues.pricereads import PoolWords, PriceReads
from app.venues.reads import StoredPool, StoredVenue, VenueReads
from app.venues.rules.bounds import FIRST_EFFECT
from app.venues.rules.history import MICRO, PriceSteps
from app.venues.rules.observed import QuoteSource
from app.venues.rules.quotes import CONFIDENCE
from app.venues.rules.rates import RevokedBy


class BidQuestion(NamedTuple):
    """A machine: its bid an hour, how long it has run, for how long it is wanted from now on, and its notice.

    With `at_us` *now* is that time, and nothing later is looked at.
    """

    bid: float
    age_us: int
    lifetime_us: int
    notice_us: int
    at_us: int | None = None


@dataclass(frozen=True, slots=True)
class BidAdvice:
    """The plan of a job's checkpoints, with what it rests on."""

    venue: StoredVenue
    pool: StoredPool
    question: BidQuestion
    at_us: int
    price: float
    source: QuoteSource
    hazards: Hazards
    plan: Plan


class BidAdvising:
    """Advises on machines of venues, at the server's clock."""

    def __init__(self, venues: VenueReads, prices: PriceReads, now_us: Callable[[], int]) -> None:
        self._venues, self._prices, self._now_us = venues, prices, now_us

    async def advise(self, name: str, words: PoolWords, question: BidQuestion, terms: AdviceTerms) -> BidAdvice:
        """Return the advice for a machine of a pool.

        Raise VenueNotFound, PoolNotFound, HistoryTooShort without any price, AdviceImpossible if the price is above the
        bid or nothing is known, AdviceTermsInvalid for terms that make no sense.
        """
        if (fault := fault_in(terms)) is not None:
            raise AdviceTermsInvalid(fault)
        venue, pool = await self._prices.pool(name, words)
        now_us = self._now_us() if question.at_us is None else question.at_us
        if venue.revoked_by is RevokedBy.CAPACITY:
            price = (pool.micro or 0) / MICRO
            hazards, source = await self._observed(venue, pool, question, now_us)
        else:
            steps, source = await self._prices.history(venue, pool, now_us), QuoteSource.PRICE_CROSSING
            price, hazards = float(steps.price[-1]), await self._counted(venue, pool, question, steps)
        plan = plan_checkpoints(hazards, terms, question.notice_us)
        return BidAdvice(venue, pool, question, now_us, price, source, hazards, plan)

    async def _counted(self, venue: StoredVenue, pool: StoredPool, question: BidQuestion, steps: PriceSteps) -> Hazards:
        try:
            return await asyncio.to_thread(hazards_under_bid, steps, question.bid, moments_ahead(question.lifetime_us))
        except PriceAbove as error:
            is_unknown = isnan(error.price)
            why = "is not known then" if is_unknown else f"is {error.price:g}, above the bid of {question.bid:g}"
            raise AdviceImpossible(f"the price of {pool.name} in venue {venue.name!r} {why}") from None

    async def _observed(
        self, venue: StoredVenue, pool: StoredPool, question: BidQuestion, now_us: int
    ) -> tuple[Hazards, QuoteSource]:
        observed = await self._venues.observed(venue, now_us)
        known = observed.survival(pool.name, question.lifetime_us, FIRST_EFFECT, CONFIDENCE)
        if known is None:
            raise AdviceImpossible(f"nothing was observed of machines like {pool.name} in venue {venue.name!r}")

        def share_living(age_us: int) -> float:
            found = observed.survival(pool.name, max(age_us, 1), FIRST_EFFECT, CONFIDENCE)
            return 0.0 if found is None else found.share

        moments_us = moments_ahead(question.lifetime_us)
        return await asyncio.to_thread(hazards_observed, share_living, question.age_us, moments_us), known.source
