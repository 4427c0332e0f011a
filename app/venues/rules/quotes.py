"""A quote of a pool: the least bid that lives for a lifetime with a probability, by the pool's own past.

Everything is counted from past starts 15 minutes apart in the window before now. The bid is the quantile of their
running maxima (thesis, 4.8); the survival told beside it is that of the starts that the bid could have made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, isnan

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.bounds import least_survival, most_survival
from app.venues.rules.cost import analog_cost, past_starts
from app.venues.rules.drawing import PricedPools
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import PriceSteps
from app.venues.rules.observed import ObservedSurvival, QuoteSource
from app.venues.rules.survival import highest_within, lattice, least_bid, seen_under
from app.venues.rules.training import LEAST_KNOWN_US, TrainedSurvival

LEAST_HISTORY_US = DAY_US
CONFIDENCE = 0.95
ROUNDING = 1e-9
_CROSSING = QuoteSource.PRICE_CROSSING


class QuoteReason(StrEnum):
    """The reasons for which a pool has no bid."""

    PRICE_UNKNOWN = "price_unknown"
    HISTORY_TOO_SHORT = "history_too_short"
    NO_EVIDENCE = "no_evidence"
    PROBABILITY_NOT_REACHED = "probability_not_reached"


@dataclass(frozen=True, slots=True)
class PoolQuote:
    """A pool's answer. Prices and costs are in the venue's currency: a price for an hour, a cost for the lifetime.

    `survival` is the share that is expected to live by the `source`, `at_least` its bound from `windows` that share no
    future. `counted` is the share of past starts that lived under the bid, None where no price ends machines. If it is
    `refuted`, so few of them lived that what the model expects lies above the bound of that. With a reason `why_not`
    there is no bid.
    """

    price: float | None
    bid: float | None = None
    survival: float | None = None
    at_least: float | None = None
    windows: int = 0
    cost: float | None = None
    source: QuoteSource | None = None
    why_not: QuoteReason | None = None
    counted: float | None = None
    refuted: bool = False


def pool_quote(
    steps: PriceSteps, now_us: int, window_us: int, lifetime_us: int, probability: float, effect: int
) -> PoolQuote:
    """Return the quote of a pool at a time; `effect` is the venue's design effect."""
    past = past_until(steps, now_us, window_us)
    if past is None:
        return PoolQuote(None, why_not=QuoteReason.PRICE_UNKNOWN)
    price = float(past.price[-1])
    starts_us = lattice(max(int(past.at_us[0]), past.end_us - window_us), past.end_us, EVERY_US)
    if known_us(past, window_us) < LEAST_HISTORY_US:
        return PoolQuote(price, why_not=QuoteReason.HISTORY_TOO_SHORT)
    highest = highest_within(past, starts_us, lifetime_us)
    bid = least_bid(highest, probability, price)
    if isnan(bid):
        return PoolQuote(price, why_not=QuoteReason.HISTORY_TOO_SHORT)
    starts = past_starts(past, window_us, bid)
    survival, windows = seen_under(highest, starts.prices, starts_us, bid, lifetime_us)
    if isnan(survival):
        return PoolQuote(price, why_not=QuoteReason.HISTORY_TOO_SHORT)
    at_least = least_survival(survival, windows, effect, CONFIDENCE)
    cost = analog_cost(starts, price, lifetime_us)
    return PoolQuote(price, bid, survival, at_least, windows, cost, _CROSSING, counted=survival)


def learned_quote(
    pools: PricedPools, now_us: int, lifetime_us: int, probability: float, effect: int, trained: TrainedSurvival
) -> PoolQuote | None:
    """Return the quote of the only pool by a venue's model; None if too little of its past is known for that."""
    [steps], window_us = pools.steps, pools.window_us
    past = past_until(steps, now_us, window_us)
    if past is None or known_us(past, window_us) < LEAST_KNOWN_US:
        return None
    price = float(past.price[-1])
    bid, found = trained.least_bid(pools, 0, past, lifetime_us, probability)
    chance = min(found, probability)  # calibrated are bids of a level; what a bid says beyond it is too much
    starts_us = lattice(max(int(past.at_us[0]), past.end_us - window_us), past.end_us, EVERY_US)
    starts = past_starts(past, window_us, bid)
    highest = highest_within(past, starts_us, lifetime_us)
    seen, windows = seen_under(highest, starts.prices, starts_us, bid, lifetime_us)
    if isnan(seen):
        return PoolQuote(price, why_not=QuoteReason.HISTORY_TOO_SHORT)
    at_least = min(least_survival(seen, windows, effect, CONFIDENCE), chance)
    cost = analog_cost(starts, price, lifetime_us)
    refuted = chance > most_survival(seen, windows, effect, CONFIDENCE)
    told = PoolQuote(price, bid, chance, at_least, windows, cost, QuoteSource.LEARNED, counted=seen, refuted=refuted)
    if chance >= probability - ROUNDING:
        return told
    return replace(told, bid=None, why_not=QuoteReason.PROBABILITY_NOT_REACHED)


def capacity_quote(
    price: float | None, on_demand: float | None, found: ObservedSurvival | None, lifetime_us: int, probability: float
) -> PoolQuote:
    """Return the quote of a pool whose machines end for lack of capacity: a bid is a cap there, the on-demand price.

    Seconds are billed, as providers do today.
    """
    if found is None:
        return PoolQuote(price, why_not=QuoteReason.NO_EVIDENCE)
    cost = None if price is None else price * lifetime_us / HOUR_US
    told = PoolQuote(price, None, found.share, found.at_least, found.windows, cost, found.source)
    if found.share < probability:
        return replace(told, why_not=QuoteReason.PROBABILITY_NOT_REACHED)
    return replace(told, bid=on_demand)


def on_demand_cost(price: float | None, lifetime_us: int) -> float | None:
    """Return the cost of a machine on demand, billed by the started hour; None if its price is not known."""
    return None if price is None else price * ceil(lifetime_us / HOUR_US)


def past_until(steps: PriceSteps, now_us: int, window_us: int) -> PriceSteps | None:
    """Return what was known of a pool in the window before a time; None if its price is unknown then."""
    past = steps.between(now_us - window_us, now_us + 1)
    if not len(past.price) or past.at_us[0] > now_us or isnan(past.price[-1]):
        return None
    return past


def known_us(past: PriceSteps, window_us: int) -> int:
    """Return for how long of the window before its end a pool's price is known."""
    begins = np.maximum(past.at_us, past.end_us - window_us)
    lengths = np.diff(np.append(begins, past.end_us))
    return int(lengths[~np.isnan(past.price)].sum())
