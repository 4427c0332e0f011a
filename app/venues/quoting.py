"""Quotes of all pools of a venue, the cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.times import DAY_US
from app.venues.rules.bounds import FIRST_EFFECT
from app.venues.rules.history import MICRO, PriceSteps, VenuePrices
from app.venues.rules.observed import ObservedPools
from app.venues.rules.quotes import CONFIDENCE, PoolQuote, capacity_quote, learned_quote, pool_quote
from app.venues.rules.training import TrainedSurvival, priced
from app.venues.store.prices import StoredPool

WINDOW_US = 60 * DAY_US


class QuoteQuestion(NamedTuple):
    """A question to a venue: which bid lives for a lifetime with a probability."""

    lifetime_us: int
    probability: float


class QuotedPool(NamedTuple):
    """A pool with its quote."""

    pool: StoredPool
    quote: PoolQuote


def quoted_by_price(
    pools: Sequence[StoredPool],
    prices: VenuePrices,
    as_of_us: int,
    question: QuoteQuestion,
    trained: TrainedSurvival | None,
) -> list[QuotedPool]:
    """Return quotes of pools whose machines are ended by their price, from what was known at a time."""
    found = [
        QuotedPool(pool, _quote(pool, steps, as_of_us, question, trained))
        for pool in pools
        if (steps := prices.pools.get(pool.name)) is not None
    ]
    return _cheapest_first(found)


def quoted_by_capacity(
    pools: Sequence[StoredPool], observed: ObservedPools, question: QuoteQuestion
) -> list[QuotedPool]:
    """Return quotes of pools whose machines end for lack of capacity."""
    (lifetime_us, probability), found = question, []
    for pool in pools:
        price = None if pool.micro is None else pool.micro / MICRO
        survival = observed.survival(pool.name, lifetime_us, FIRST_EFFECT, CONFIDENCE)
        quote = capacity_quote(price, pool.on_demand, survival, lifetime_us, probability)
        found.append(QuotedPool(pool, quote))
    return _cheapest_first(found)


def _quote(
    pool: StoredPool, steps: PriceSteps, as_of_us: int, question: QuoteQuestion, trained: TrainedSurvival | None
) -> PoolQuote:
    """Return a pool's quote by the venue's model, or by counting."""
    if trained is not None:
        pools = priced([steps], [pool.on_demand], WINDOW_US)
        if found := learned_quote(pools, as_of_us, *question, FIRST_EFFECT, trained):
            return found
    return pool_quote(steps, as_of_us, WINDOW_US, *question, FIRST_EFFECT)


def _cheapest_first(found: Sequence[QuotedPool]) -> list[QuotedPool]:
    def order(one: QuotedPool) -> tuple[bool, bool, float, int]:
        cost = one.quote.cost
        return one.quote.why_not is not None, cost is None, cost or 0.0, one.pool.id

    return sorted(found, key=order)
