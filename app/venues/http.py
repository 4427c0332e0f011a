"""Handlers for venues. Prices are written by `tenure venue import`, on the database."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.bodies import read_body, read_query
from app.platform.http.page_forms import PageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.venues.keeping import VenueKeeper
from app.venues.pricereads import PriceReads
from app.venues.quoting import QuoteQuestion
from app.venues.reads import VenueReads, pool_id
from app.venues.wire import (
    ObservationsBody,
    PoolsQuery,
    PoolSurvivalQuery,
    PricesQuery,
    VenueQuotesQuery,
    pool_answer,
    prices_answer,
    quotes_answer,
    survival_answer,
    venue_answer,
)
from tenure_client.forms.venues import ObservedAnswer, PoolsAnswer, VenuesAnswer


async def list_venues(request: Request) -> Response:
    """List all venues by name. They are made by `tenure venue import`."""
    query = read_query(request, PageQuery)
    page = await reached(request, VenueReads).list(query.marker, query.limit)
    answers = [venue_answer(venue) for venue in page.items]
    return respond(VenuesAnswer(venues=answers, links=next_link(request, page.marker)))


async def show_venue(request: Request) -> Response:
    """Show a venue: its pools and prices counted, and from when to when they are."""
    reads = reached(request, VenueReads)
    venue = await reads.show(request.path_params["venue"])
    return respond(venue_answer(venue, await reads.feed(venue), await reads.model(venue)))


async def remove_venue(request: Request) -> Response:
    """Remove a venue with its pools, prices and observations, which no other place keeps."""
    await reached(request, VenueKeeper).remove(request.path_params["venue"])
    return Response(status_code=204)


async def observe_machines(request: Request) -> Response:
    """Report what became of machines: own instances, and probes. All of it is taken or nothing; twice changes nothing.

    Survival where machines end for lack of capacity is estimated from these.
    """
    name, body = request.path_params["venue"], await read_body(request, ObservationsBody)
    new = await reached(request, VenueKeeper).observe(name, body.sightings())
    return respond(ObservedAnswer(venue=name, read=len(body.observations), new=new))


async def list_pools(request: Request) -> Response:
    """List a venue's pools with their newest prices."""
    query = read_query(request, PoolsQuery)
    page = await reached(request, VenueReads).pools(
        request.path_params["venue"], query.marker, query.limit, instance_type=query.instance_type, zone=query.zone
    )
    return respond(PoolsAnswer(pools=[pool_answer(pool) for pool in page.items], links=next_link(request, page.marker)))


async def read_pool_survival(request: Request) -> Response:
    """Show how many of a pool's machines live by lifetime, with the evidence, and which bid a lifetime needs.

    Where the price ends machines, under some bids, counted from past starts and by the venue's model if there is one.
    Where they end for lack of capacity, from what was observed. The curves tell of the past and promise nothing.
    """
    query, path = read_query(request, PoolSurvivalQuery), request.path_params
    found = await reached(request, VenueReads).curves(
        path["venue"], pool_id(path["pool"]), query.asked_bids(), query.lifetimes_us(), query.at_us
    )
    return respond(survival_answer(found))


async def list_prices(request: Request) -> Response:
    """List the prices of one pool from a time on, beginning with the one that holds then.

    A page spans a month at most.
    """
    query, venue = read_query(request, PricesQuery), request.path_params["venue"]
    found = await reached(request, PriceReads).prices(venue, query.words(), query.from_us, query.limit)
    return respond(prices_answer(found, next_link(request, found.prices.marker, "from")))


async def read_venue_quotes(request: Request) -> Response:
    """Ask each pool for the least bid under which so many machines live for the lifetime, and its usual cost.

    Quotes say what past starts show, or the venue's model says of them, and promise nothing; see `source`. A bid holds
    where a machine is revoked by its price.
    """
    query = read_query(request, VenueQuotesQuery)
    question = QuoteQuestion(query.lifetime_us, query.probability)
    found = await reached(request, VenueReads).quotes(request.path_params["venue"], question, query.at_us)
    return respond(quotes_answer(found, query))
