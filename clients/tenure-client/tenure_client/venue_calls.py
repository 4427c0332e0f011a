"""Calls about venues, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import to_builtins

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.advice import BidAdviceAnswer
from tenure_client.forms.answer import Seconds
from tenure_client.forms.venues import (
    ObservedAnswer,
    PoolAnswer,
    PoolPriceAnswer,
    PoolSurvivalAnswer,
    VenueAnswer,
    VenueQuotesAnswer,
)
from tenure_client.values import MachineSeen


def venues(*, limit: int = PAGE, marker: str | None = None) -> Listing[VenueAnswer]:
    """List all venues by name."""
    return Listing(endpoints.VENUES.call(query={"limit": limit, "marker": marker}), lambda page: page.venues)


def venue(venue: str) -> Call[VenueAnswer]:
    """Show a venue: its pools and prices counted, and from when to when they are."""
    return endpoints.VENUE.call(venue=venue)


def remove_venue(venue: str) -> Call[None]:
    """Remove a venue with its pools, prices and observations. Raises NotFound if it is gone already."""
    return endpoints.REMOVE_VENUE.call(venue=venue)


def pools(
    venue: str,
    *,
    instance_type: str | None = None,
    zone: str | None = None,
    limit: int = PAGE,
    marker: int | None = None,
) -> Listing[PoolAnswer]:
    """List a venue's pools with their newest prices."""
    query = {"type": instance_type, "zone": zone, "limit": limit, "marker": marker}
    return Listing(endpoints.POOLS.call(query=query, venue=venue), lambda page: page.pools)


def pool_survival(
    venue: str,
    pool: int,
    *,
    bids: Sequence[float] = (),
    lifetime_s: Seconds | None = None,
    at: datetime | None = None,
) -> Call[PoolSurvivalAnswer]:
    """Show how many live by lifetime under up to four bids, and which bid a lifetime needs; `pool` is a pool's id.

    Raises Conflict without prices. With `lifetime_s` the curves have that point alone.
    """
    texts = ",".join(f"{bid:.6f}".rstrip("0").rstrip(".") for bid in bids) or None
    query = {"bid": texts, "lifetime_s": lifetime_s, "at": at}
    return endpoints.POOL_SURVIVAL.call(query=query, venue=venue, pool=str(pool))


def venue_prices(
    venue: str,
    instance_type: str,
    zone: str,
    since: datetime,
    *,
    product: str | None = None,
    limit: int = PAGE,
) -> Listing[PoolPriceAnswer]:
    """List the prices of one pool, from the one that holds at a time on. Raises NotFound if there is no such pool."""
    query = {"type": instance_type, "zone": zone, "product": product, "from": since, "limit": limit}
    return Listing(endpoints.PRICES.call(query=query, venue=venue), lambda page: page.prices)


def venue_checkpoint_advice(
    venue: str,
    instance_type: str,
    zone: str,
    bid: float,
    lifetime_s: Seconds,
    pause_s: Seconds,
    *,
    product: str | None = None,
    age_s: Seconds | None = None,
    notice_s: Seconds | None = None,
    write_s: Seconds | None = None,
    restore_s: Seconds | None = None,
    at_risk_s: Seconds | None = None,
    loss_every_s: Seconds | None = None,
    at: datetime | None = None,
) -> Call[BidAdviceAnswer]:
    """Ask when a job on a machine under a bid, wanted for a lifetime from now (or `at`), should be checkpointed.

    Raises Conflict if the price is above the bid, or is not known.
    """
    query = {
        "type": instance_type,
        "zone": zone,
        "product": product,
        "bid": bid,
        "lifetime_s": lifetime_s,
        "age_s": age_s,
        "notice_s": notice_s,
        "pause_s": pause_s,
        "write_s": write_s,
        "restore_s": restore_s,
        "at_risk_s": at_risk_s,
        "loss_every_s": loss_every_s,
        "at": at,
    }
    return endpoints.VENUE_CHECKPOINT_ADVICE.call(query=query, venue=venue)


def observe(venue: str, observations: Sequence[MachineSeen]) -> Call[ObservedAnswer]:
    """Report up to 1000 things that were seen of machines. The same twice changes nothing."""
    return endpoints.OBSERVE.call(body={"observations": [to_builtins(one) for one in observations]}, venue=venue)


def venue_quotes(
    venue: str,
    lifetime_s: Seconds,
    *,
    probability: float | None = None,
    instance_type: str | None = None,
    zone: str | None = None,
    at: datetime | None = None,
    limit: int | None = None,
) -> Call[VenueQuotesAnswer]:
    """Ask each pool for the least bid that lives for a lifetime with a probability. Raises Conflict without prices."""
    query = {
        "lifetime_s": lifetime_s,
        "probability": probability,
        "type": instance_type,
        "zone": zone,
        "at": at,
        "limit": limit,
    }
    return endpoints.VENUE_QUOTES.call(query=query, venue=venue)
