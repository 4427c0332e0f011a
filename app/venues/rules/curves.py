"""Curves of a pool: how many live by lifetime under a bid, which bid a lifetime needs, and what was observed.

Under a bid each point is counted like the survival of a quote (`quotes`). Fewer starts can be watched for a longer
lifetime, so a share could rise by chance from one lifetime to the next; it is then told as the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.venues.rules.bounds import least_survival
from app.venues.rules.drawing import PricedPools
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PoolName, PriceSteps
from app.venues.rules.observed import ObservedPools, QuoteSource
from app.venues.rules.quotes import CONFIDENCE, LEAST_HISTORY_US, ROUNDING, QuoteReason, known_us, past_until
from app.venues.rules.survival import highest_within, lattice, least_bid, prices_at, seen_under
from app.venues.rules.training import LEAST_KNOWN_US, TrainedSurvival

LIFETIMES_US = tuple(
    round(hours * HOUR_US) for hours in (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48, 72, 96, 120, 168)
)
LEVELS = (0.9, 0.95, 0.99)
"""The probabilities of which the least bid is told by lifetime."""
_ABOVE_PRICE = 2.0


class SurvivalPoint(NamedTuple):
    """A lifetime, the share that lives so long (None if no start shows it), its lower bound, and the evidence."""

    lifetime_us: int
    survival: float | None
    at_least: float | None
    windows: int


class SurvivalCurve(NamedTuple):
    """The survival under a bid; without one, that of a machine that ends for lack of capacity."""

    bid: float | None
    source: QuoteSource
    points: Sequence[SurvivalPoint]


class LevelBids(NamedTuple):
    """The least bid for each of the lifetimes that reaches a probability; None where there is none."""

    probability: float
    source: QuoteSource
    bids: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class PoolCurves:
    """All curves of a pool at its price now. `why_not`: the reason for which there are none."""

    price: float | None
    lifetimes_us: Sequence[int]
    curves: Sequence[SurvivalCurve] = ()
    least_bids: Sequence[LevelBids] = ()
    why_not: QuoteReason | None = None


class CurveQuestion(NamedTuple):
    """The bids, or none: the usual ones; the lifetimes, which rise; and the venue's design effect."""

    bids: Sequence[float]
    lifetimes_us: Sequence[int]
    effect: int


def usual_bids(price: float, on_demand: float | None) -> list[float]:
    """Return the bids that are shown if none was asked for: the price now, twice that, and the price on demand."""
    known = [] if on_demand is None or on_demand < price else [on_demand]
    return sorted({price, _ABOVE_PRICE * price, *known})


def crossing_curves(
    pools: PricedPools, on_demand: float | None, now_us: int, question: CurveQuestion, trained: TrainedSurvival | None
) -> PoolCurves:
    """Return the curves of the only pool, whose price ends machines. `on_demand`: None where nobody told it.

    `trained`: the venue's model, whose curves stand beside those that are counted.
    """
    [steps], window_us = pools.steps, pools.window_us
    past = past_until(steps, now_us, window_us)
    if past is None:
        return PoolCurves(None, question.lifetimes_us, why_not=QuoteReason.PRICE_UNKNOWN)
    price, known_time_us = float(past.price[-1]), known_us(past, window_us)
    if known_time_us < LEAST_HISTORY_US:
        return PoolCurves(price, question.lifetimes_us, why_not=QuoteReason.HISTORY_TOO_SHORT)
    model = trained if known_time_us >= LEAST_KNOWN_US else None
    starts_us = lattice(max(int(past.at_us[0]), past.end_us - window_us), past.end_us, EVERY_US)
    highest = [highest_within(past, starts_us, lifetime_us) for lifetime_us in question.lifetimes_us]
    curves = []
    for bid in question.bids or usual_bids(price, on_demand):
        curves.append(_counted(past, starts_us, highest, bid, question))
        if model is not None and bid >= price:
            curves.append(_learned(pools, past, curves[-1], model))
    if model is None:
        least = [_least_counted(level, price, highest) for level in LEVELS]
    else:
        least = [_least_learned(level, pools, past, question.lifetimes_us, model) for level in LEVELS]
    return PoolCurves(price, question.lifetimes_us, curves, least)


def observed_curves(
    observed: ObservedPools, pool: PoolName, price: float | None, question: CurveQuestion
) -> PoolCurves:
    """Return the curve of a pool whose machines end for lack of capacity; bids do not matter there."""
    lifetimes_us = question.lifetimes_us
    found = [(us, observed.survival(pool, us, question.effect, CONFIDENCE)) for us in lifetimes_us]
    known = [(us, one) for us, one in found if one is not None]
    if not known:
        return PoolCurves(price, lifetimes_us, why_not=QuoteReason.NO_EVIDENCE)
    points = [SurvivalPoint(us, one.share, one.at_least, one.windows) for us, one in known]
    return PoolCurves(price, lifetimes_us, [SurvivalCurve(None, known[0][1].source, _never_rising(points))])


def _counted(
    past: PriceSteps, starts_us: Ints, highest: Sequence[Dollars], bid: float, question: CurveQuestion
) -> SurvivalCurve:
    prices, points = prices_at(past.at_us, past.price, starts_us), []
    for lifetime_us, one in zip(question.lifetimes_us, highest, strict=True):
        share, windows = seen_under(one, prices, starts_us, bid, lifetime_us)
        known = None if isnan(share) else share
        at_least = None if known is None else least_survival(known, windows, question.effect, CONFIDENCE)
        points.append(SurvivalPoint(lifetime_us, known, at_least, windows))
    return SurvivalCurve(bid, QuoteSource.PRICE_CROSSING, _never_rising(points))


def _learned(pools: PricedPools, past: PriceSteps, counted: SurvivalCurve, trained: TrainedSurvival) -> SurvivalCurve:
    """Return what the model says of a bid; evidence and bound are those that were counted, as in a quote."""
    assert counted.bid is not None
    points = []
    for one in counted.points:
        chance = float(trained.chances(pools.rows(0, past, [counted.bid], one.lifetime_us))[0])
        at_least = 0.0 if one.at_least is None else min(one.at_least, chance)
        points.append(SurvivalPoint(one.lifetime_us, chance, at_least, one.windows))
    return SurvivalCurve(counted.bid, QuoteSource.LEARNED, _never_rising(points))


def _least_counted(level: float, price: float, highest: Sequence[Dollars]) -> LevelBids:
    found = [least_bid(one, level, price) for one in highest]
    return LevelBids(level, QuoteSource.PRICE_CROSSING, [None if isnan(bid) else bid for bid in found])


def _least_learned(
    level: float, pools: PricedPools, past: PriceSteps, lifetimes_us: Sequence[int], trained: TrainedSurvival
) -> LevelBids:
    found = [trained.least_bid(pools, 0, past, lifetime_us, level) for lifetime_us in lifetimes_us]
    bids = [bid if chance >= level - ROUNDING else None for bid, chance in found]
    return LevelBids(level, QuoteSource.LEARNED, bids)


def _never_rising(points: Sequence[SurvivalPoint]) -> list[SurvivalPoint]:
    found, share, at_least = [], 1.0, 1.0
    for one in points:
        if one.survival is not None and one.at_least is not None:
            share, at_least = min(share, one.survival), min(at_least, one.at_least)
            found.append(one._replace(survival=share, at_least=at_least))
        else:
            found.append(one)
    return found
