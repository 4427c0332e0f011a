"""Queries and answers about venues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.domain.times import SECOND_US, seconds, to_datetime
from app.platform.http.fields import Body, Name, PositiveSecondsInQuery, Probability, Query, Time
from app.platform.http.page_forms import Limit, NumberedPageQuery
from app.platform.http.wording import written
from app.venues.pricereads import PoolPrices, PoolWords
from app.venues.quoting import WINDOW_US, QuotedPool
from app.venues.reads import FoundCurves, StoredFeed, StoredModel, StoredPool, StoredVenue, VenueQuotes
from app.venues.rules.curves import LIFETIMES_US, SurvivalPoint
from app.venues.rules.history import MICRO, PoolName
from app.venues.rules.observed import Sighting, SightingKind
from app.venues.rules.poolwords import LINUX, POOL_WORD
from app.venues.rules.pricefiles import EARLIEST_US
from app.venues.rules.quotes import CONFIDENCE, on_demand_cost
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.venues import (
    LeastBidPointAnswer,
    LeastBidsAnswer,
    PoolAnswer,
    PoolPriceAnswer,
    PoolPricesAnswer,
    PoolSurvivalAnswer,
    PoolSurvivalPointAnswer,
    SurvivalCurveAnswer,
    VenueAnswer,
    VenueFeedAnswer,
    VenueModelAnswer,
    VenueQuoteAnswer,
    VenueQuotesAnswer,
)

PoolWord = Annotated[
    str,
    Field(max_length=100),
    written(
        POOL_WORD,
        "must begin with a letter or digit, end in no space, and may hold letters, digits, spaces and ._/()+-",
    ),
]
_Bids = Annotated[
    str,
    written(
        r"^[0-9]{1,5}(\.[0-9]{1,6})?(,[0-9]{1,5}(\.[0-9]{1,6})?){0,3}$",
        "must be one to four prices below 100000 with at most six decimals, like 0.05,0.2",
    ),
]
_TYPE = Field(None, alias="type", description="Only this machine type.")
_ZONE = Field(None, description="Only this zone.")


def _since_2009(at_us: int) -> int:
    if at_us < EARLIEST_US:
        raise PydanticCustomError("time_range", "must be from 2009 on")
    return at_us


class MachineSeenBody(Body):
    """Something that was seen of a machine of a pool, which the first five words name."""

    provider: PoolWord
    region: PoolWord
    zone: PoolWord
    instance_type: PoolWord
    product: PoolWord
    instance_id: Name = Field(alias="id", description="Names the instance, or a series of probes.")
    at_us: Annotated[Time, AfterValidator(_since_2009)]
    kind: SightingKind = Field(strict=False)


class ObservationsBody(Body):
    """Things that were seen of machines, in any order."""

    most_bytes: ClassVar[int] = 1 << 19
    most_values: ClassVar[int] = 1 << 14
    observations: list[MachineSeenBody] = Field(min_length=1, max_length=1000)

    def sightings(self) -> list[Sighting]:
        """Return what was seen."""
        return [
            Sighting(PoolName(*(getattr(one, word) for word in PoolName._fields)), one.instance_id, one.at_us, one.kind)
            for one in self.observations
        ]


class PoolsQuery(NumberedPageQuery):
    instance_type: PoolWord | None = _TYPE
    zone: PoolWord | None = _ZONE


class OnePoolQuery(Query):
    """The words that name one pool of a venue."""

    instance_type: PoolWord = Field(alias="type", description="The machine type.")
    zone: PoolWord
    product: PoolWord = Field(LINUX, description="The system, as the provider names it.")

    def words(self) -> PoolWords:
        """Return the words."""
        return PoolWords(self.instance_type, self.zone, self.product)


class PricesQuery(OnePoolQuery):
    from_us: Time = Field(alias="from", description="The answer begins with the price that holds at this time.")
    limit: Limit = 100


class VenueQuotesQuery(Query):
    lifetime_us: PositiveSecondsInQuery = Field(description="The time that a machine is to live.")
    probability: Probability = Field(
        0.95, alias="probability", description="The share of machines that are to live so long under the bid."
    )
    instance_type: PoolWord | None = _TYPE
    zone: PoolWord | None = _ZONE
    at_us: Time | None = Field(
        None,
        description="A time in the past to answer as of; by default now. The newest price by then must not be old.",
    )
    limit: Limit = 100


class PoolSurvivalQuery(Query):
    """The bids and the lifetime that a pool's curves are asked for."""

    bids: _Bids | None = Field(
        None,
        alias="bid",
        description="Up to four bids, like 0.05,0.2; by default the price now, twice that, and the on-demand price.",
    )
    lifetime_us: PositiveSecondsInQuery | None = Field(
        None, description="The curves have this point alone; by default points from a quarter of an hour to a week."
    )
    at_us: Time | None = Field(None, description="A time in the past to answer as of; by default now.")

    def asked_bids(self) -> list[float]:
        """Return the bids; none if the usual ones are asked for."""
        return [float(bid) for bid in (self.bids or "").split(",") if bid]

    def lifetimes_us(self) -> Sequence[int]:
        """Return the lifetimes of the points."""
        return LIFETIMES_US if self.lifetime_us is None else (self.lifetime_us,)


def venue_answer(venue: StoredVenue, feed: StoredFeed | None = None, model: StoredModel | None = None) -> VenueAnswer:
    """Return the wire form of a venue, with its feed and model if they were looked up."""
    return answer_of(
        VenueAnswer,
        venue,
        first_price_at=None if venue.first_us is None else to_datetime(venue.first_us),
        last_price_at=None if venue.last_us is None else to_datetime(venue.last_us),
        model=None if model is None else _model_answer(model),
        feed=None if feed is None else answer_of(VenueFeedAnswer, feed),
        links=[Link(rel="self", href=f"/v1/venues/{venue.name}")],
    )


def _model_answer(model: StoredModel) -> VenueModelAnswer:
    return VenueModelAnswer(
        trained_until=to_datetime(model.trained.until_us),
        fitted_at=model.fitted_at,
        outcomes=model.trained.outcomes,
    )


def pool_answer(pool: StoredPool) -> PoolAnswer:
    """Return the wire form of a pool."""
    return PoolAnswer(
        id=pool.id,
        **pool.name._asdict(),
        price=None if pool.micro is None else pool.micro / MICRO,
        price_at=None if pool.price_us is None else to_datetime(pool.price_us),
        on_demand_price=pool.on_demand,
    )


def survival_answer(found: FoundCurves) -> PoolSurvivalAnswer:
    """Return the wire form of a pool's curves."""
    curves, path = found.curves, f"/v1/venues/{found.venue.name}/pools/{found.pool.id}/survival"
    times = [seconds(us) for us in curves.lifetimes_us]
    return PoolSurvivalAnswer(
        venue=found.venue.name,
        pool=pool_answer(found.pool),
        currency=found.venue.currency,
        as_of=to_datetime(found.as_of_us),
        window_s=WINDOW_US // SECOND_US,
        confidence=CONFIDENCE,
        design_effect=found.design_effect,
        price=curves.price,
        curves=[
            SurvivalCurveAnswer(
                bid=curve.bid, source=curve.source, points=[_survival_point(one) for one in curve.points]
            )
            for curve in curves.curves
        ],
        least_bids=[
            LeastBidsAnswer(
                probability=one.probability,
                source=one.source,
                points=[
                    LeastBidPointAnswer(lifetime_s=lifetime_s, bid=bid)
                    for lifetime_s, bid in zip(times, one.bids, strict=True)
                ],
            )
            for one in curves.least_bids
        ],
        why_not=curves.why_not,
        links=[Link(rel="self", href=path)],
    )


def _survival_point(point: SurvivalPoint) -> PoolSurvivalPointAnswer:
    return PoolSurvivalPointAnswer(
        lifetime_s=seconds(point.lifetime_us), survival=point.survival, at_least=point.at_least, windows=point.windows
    )


def prices_answer(found: PoolPrices, links: list[Link]) -> PoolPricesAnswer:
    """Return the wire form of prices of a pool."""
    prices = [PoolPriceAnswer(at=to_datetime(one.at_us), price=one.micro / MICRO) for one in found.prices.items]
    venue = found.venue
    return answer_of(
        PoolPricesAnswer, pool_answer(found.pool), venue=venue.name, currency=venue.currency, prices=prices, links=links
    )


def quotes_answer(found: VenueQuotes, query: VenueQuotesQuery) -> VenueQuotesAnswer:
    """Return the wire form of the quotes of the pools that match."""
    fit = [one for one in found.quotes if _fits(one.pool, query)]
    return VenueQuotesAnswer(
        venue=found.venue.name,
        currency=found.venue.currency,
        as_of=to_datetime(found.as_of_us),
        lifetime_s=seconds(query.lifetime_us),
        probability=query.probability,
        window_s=WINDOW_US // SECOND_US,
        confidence=CONFIDENCE,
        design_effect=found.design_effect,
        pool_count=len(fit),
        quotes=[_quote_answer(one, query.lifetime_us) for one in fit[: query.limit]],
        links=[Link(rel="self", href=f"/v1/venues/{found.venue.name}")],
    )


def _fits(pool: StoredPool, query: VenueQuotesQuery) -> bool:
    return query.instance_type in (None, pool.name.instance_type) and query.zone in (None, pool.name.zone)


def _quote_answer(one: QuotedPool, lifetime_us: int) -> VenueQuoteAnswer:
    on_demand = on_demand_cost(one.pool.on_demand, lifetime_us)
    return answer_of(VenueQuoteAnswer, one.quote, **one.pool.name._asdict(), on_demand_cost=on_demand)
