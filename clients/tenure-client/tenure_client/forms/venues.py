"""Answers on venues: places where others sell machines, their pools, and quotes over them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment, Seconds
from tenure_client.forms.words import QuoteSourceWord, RevokedByWord, VenueReasonWord


class VenueFeedAnswer(Answer, kw_only=True):
    """A provider's region that is followed: it is polled, and its prices are imported."""

    provider: str
    region: str
    polled_at: Moment
    succeeded_at: Annotated[Moment | None, Meta(description="Of the last poll that succeeded; null before the first.")]
    failures: Annotated[int, Meta(description="Polls that failed since then.")]
    error: Annotated[str | None, Meta(description="The reason for which the last poll failed; null if it did not.")]


class VenueModelAnswer(Answer, kw_only=True):
    """The model that survival is learned with: one for all pools, fitted again every ten days."""

    trained_until: Annotated[Moment, Meta(description="It has seen no price of later.")]
    fitted_at: Moment
    outcomes: Annotated[int, Meta(description="The drawn bids whose outcomes it was fitted to.")]


class VenueAnswer(Answer, kw_only=True):
    name: str
    currency: Annotated[str, Meta(description="Of all prices and costs; three capital letters.")]
    created_at: Moment
    changed_at: Annotated[Moment, Meta(description="The time of the last import.")]
    pool_count: int
    price_count: int
    first_price_at: Moment | None
    last_price_at: Moment | None
    revoked_by: RevokedByWord
    model: Annotated[VenueModelAnswer | None, Meta(description="Null in lists, and where none has been fitted.")]
    feed: Annotated[VenueFeedAnswer | None, Meta(description="Null in lists, and where nobody follows a provider.")]
    links: list[Link]


class VenuesAnswer(Answer, kw_only=True):
    venues: Annotated[list[VenueAnswer], Meta(description="By name.")]
    links: list[Link]


class PoolAnswer(Answer, kw_only=True):
    """A machine type in a zone of a venue. It has one price, which moves."""

    id: Annotated[int, Meta(description="Its number, which names it in paths.")]
    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    price: Annotated[float | None, Meta(description="The newest price of an hour; null where none was told.")]
    price_at: Annotated[Moment | None, Meta(description="The time at which it was told.")]
    on_demand_price: Annotated[float | None, Meta(description="Of an hour; null where the import did not tell it.")]


class PoolsAnswer(Answer, kw_only=True):
    pools: Annotated[list[PoolAnswer], Meta(description="In the order in which they were first seen.")]
    links: list[Link]


class PoolPriceAnswer(Answer, kw_only=True):
    """A price of an hour, from this time on."""

    at: Moment
    price: float


class PoolPricesAnswer(Answer, kw_only=True):
    """Prices of one pool, with its newest one."""

    venue: str
    currency: str
    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    price: Annotated[float | None, Meta(description="The newest price of an hour; null where none was told.")]
    price_at: Annotated[Moment | None, Meta(description="The time at which it was told.")]
    on_demand_price: Annotated[float | None, Meta(description="Of an hour; null where the import did not tell it.")]
    prices: Annotated[list[PoolPriceAnswer], Meta(description="By rising time.")]
    links: list[Link]


Refuted = Annotated[
    bool,
    Meta(
        description="True: so few of the past starts lived that `survival`, by the venue's model, is above the upper "
        "bound of the share that lived, at the answer's confidence."
    ),
]


class VenueQuoteAnswer(Answer, kw_only=True):
    """A pool's bid, and how it did in the pool's past."""

    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    price: Annotated[float | None, Meta(description="Of an hour now; null where it is unknown.")]
    bid: Annotated[
        float | None,
        Meta(
            description="The least bid that reaches the probability; where machines end for lack of capacity, the price"
            " on demand, which is a cap only; null with `why_not`."
        ),
    ]
    survival: Annotated[float | None, Meta(description="The share that is expected to live; see `source`.")]
    counted: Annotated[
        float | None,
        Meta(description="The share of past starts that lived under the bid; null where no price ends machines."),
    ] = None
    refuted: Refuted = False
    at_least: Annotated[float | None, Meta(description="A lower bound of it, at the answer's confidence.")]
    windows: Annotated[int, Meta(description="Past lifetimes of the pool that share no time: the bound's evidence.")]
    cost: Annotated[float | None, Meta(description="Usual cost of a run that completes, by the started hour.")]
    on_demand_cost: Annotated[float | None, Meta(description="Of a machine on demand; null where it is not known.")]
    source: Annotated[QuoteSourceWord | None, Meta(description="Where the survival comes from; null without one.")]
    why_not: Annotated[VenueReasonWord | None, Meta(description="The reason for which there is no bid.")]


class VenueQuotesAnswer(Answer, kw_only=True):
    venue: str
    currency: str
    as_of: Annotated[Moment, Meta(description="The time of the newest price; nothing later was looked at.")]
    lifetime_s: Seconds
    probability: float
    window_s: Annotated[Seconds, Meta(description="The past that was looked at.")]
    confidence: float
    design_effect: Annotated[int, Meta(description="Windows are divided by this for `at_least`.")]
    pool_count: Annotated[int, Meta(description="Pools that match, of which the answer may hold a part.")]
    quotes: Annotated[list[VenueQuoteAnswer], Meta(description="The cheapest first; those without a bid last.")]
    links: list[Link]


class PoolSurvivalPointAnswer(Answer, kw_only=True):
    """The share of machines that live so long."""

    lifetime_s: Seconds
    survival: Annotated[float | None, Meta(description="Null where no past start under the bid shows it.")]
    refuted: Refuted = False
    at_least: Annotated[float | None, Meta(description="A lower bound of it, at the answer's confidence.")]
    windows: Annotated[int, Meta(description="Past lifetimes that share no time: the bound's evidence.")]


class SurvivalCurveAnswer(Answer, kw_only=True):
    """Survival by lifetime, under a bid or of what was observed. It never rises."""

    bid: Annotated[float | None, Meta(description="Of an hour; null where machines end for lack of capacity.")]
    source: QuoteSourceWord
    points: list[PoolSurvivalPointAnswer]


class LeastBidPointAnswer(Answer, kw_only=True):
    lifetime_s: Seconds
    bid: Annotated[float | None, Meta(description="Null where no bid is known to reach the probability.")]


class LeastBidsAnswer(Answer, kw_only=True):
    """The least bid by lifetime that reaches a probability."""

    probability: float
    source: QuoteSourceWord
    points: list[LeastBidPointAnswer]


class PoolSurvivalAnswer(Answer, kw_only=True):
    venue: str
    pool: PoolAnswer
    currency: str
    as_of: Annotated[Moment, Meta(description="Nothing later was looked at.")]
    window_s: Annotated[Seconds, Meta(description="The past that prices were looked at in.")]
    confidence: float
    design_effect: Annotated[int, Meta(description="Windows are divided by this for `at_least`.")]
    price: Annotated[float | None, Meta(description="Of an hour then; null where it is unknown.")]
    curves: Annotated[list[SurvivalCurveAnswer], Meta(description="Of each bid: counted, then learned if it is.")]
    least_bids: Annotated[list[LeastBidsAnswer], Meta(description="None where machines end for lack of capacity.")]
    why_not: Annotated[VenueReasonWord | None, Meta(description="The reason for which there is no curve.")]
    links: list[Link]


class ObservedAnswer(Answer, kw_only=True):
    venue: str
    read: Annotated[int, Meta(description="Observations in the request.")]
    new: Annotated[int, Meta(description="Of them, those that were not known.")]
