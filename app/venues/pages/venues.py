"""The pages of venues: all of them, and one with its quotes. Tokens of one cloud see none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import Conflict
from app.domain.inputs import InputError, parse_duration
from app.domain.times import DAY_US, from_datetime
from app.platform.http.errors import Forbidden
from app.platform.http.reached import reached
from app.platform.pages.asking import number, server_time
from app.platform.pages.rendering import render
from app.venues.quoting import QuoteQuestion
from app.venues.reads import MOST_AGE_US, StoredVenue, VenueQuotes, VenueReads
from app.venues.rules.observed import QuoteSource
from app.venues.rules.quotes import CONFIDENCE, on_demand_cost
from app.venues.rules.rates import RevokedBy

_VENUES_ON_PAGE, _POOLS_ON_PAGE = 200, 50
_LONGEST_US = 3660 * DAY_US


@dataclass(frozen=True, slots=True)
class VenueForm:
    """The texts of the form as written, the question that they make, and what is wrong with them."""

    lifetime: str
    probability: str
    question: QuoteQuestion | None
    problem: str


async def show_all(request: Request) -> Response:
    """Show all venues by name."""
    refuse_scoped(request)
    venues = (await reached(request, VenueReads).list(None, _VENUES_ON_PAGE)).items
    return render(request, "venues.html", venues=venues)


async def show(request: Request) -> Response:
    """Show the form, and the quotes of the pools as of the venue's newest price."""
    refuse_scoped(request)
    venue = await reached(request, VenueReads).show(request.path_params["venue"])
    form, feed = read_form(request), await reached(request, VenueReads).feed(venue)
    found, trouble = await _quotes(request, venue, form)
    is_learned = found is not None and any(one.quote.source is QuoteSource.LEARNED for one in found.quotes)
    model = await reached(request, VenueReads).model(venue) if is_learned else None
    quotes = [] if found is None else found.quotes
    first = number(request, "from", len(quotes)) or 0
    return render(
        request,
        "venue.html",
        venue=venue,
        feed=feed,
        model=None if model is None else model.trained,
        fed_us=None if feed is None or feed.succeeded_at is None else from_datetime(feed.succeeded_at),
        form=form,
        stale_us=stale_us(request, venue),
        found=found,
        trouble=trouble,
        confidence=CONFIDENCE,
        shown=quotes[first : first + _POOLS_ON_PAGE],
        first=first,
        more=first + _POOLS_ON_PAGE if first + _POOLS_ON_PAGE < len(quotes) else None,
        on_demand_cost=on_demand_cost,
        live=f"/ui/venues/{venue.name}/live",
    )


async def look(request: Request) -> dict[str, Any]:
    """Return what changes when the pages of a venue do."""
    refuse_scoped(request)
    reads = reached(request, VenueReads)
    venue = await reads.show(request.path_params["venue"])
    feed = await reads.feed(venue)
    return {"version": venue.version, "feed": None if feed is None else [str(feed.succeeded_at), feed.error]}


async def _quotes(request: Request, venue: StoredVenue, form: VenueForm) -> tuple[VenueQuotes | None, str]:
    """Return the quotes, or the reason for which there are none."""
    is_by_price = venue.revoked_by is RevokedBy.PRICE
    if form.question is None or (is_by_price and venue.last_us is None):
        return None, ""
    try:
        at_us = venue.last_us if is_by_price else None
        return await reached(request, VenueReads).quotes(venue.name, form.question, at_us), ""
    except Conflict as error:
        return None, str(error)


def read_form(request: Request) -> VenueForm:
    """Return the form's values, by default six hours at 95 %."""
    lifetime, share = request.query_params.get("for", "6h")[:20], request.query_params.get("share", "95")[:20]
    try:
        lifetime_us, percent = parse_duration(lifetime), float(share)
    except (InputError, ValueError):
        return VenueForm(lifetime, share, None, "Write a time like 6h or 2d, and a number of per cent.")
    if not (0 < lifetime_us <= _LONGEST_US and 0 < percent < 100):
        return VenueForm(lifetime, share, None, "The time must be above 0, the share above 0 and below 100 per cent.")
    return VenueForm(lifetime, share, QuoteQuestion(lifetime_us, percent / 100), "")


def stale_us(request: Request, venue: StoredVenue) -> int | None:
    """Return how old the newest price is, if it is too old to say what a bid needs now; None if it is not.

    Of machines that end for lack of capacity pages tell nothing by old prices.
    """
    if venue.last_us is None or venue.revoked_by is not RevokedBy.PRICE:
        return None
    age_us = from_datetime(server_time(request)) - venue.last_us
    return age_us if age_us > MOST_AGE_US else None


def refuse_scoped(request: Request) -> None:
    """Raise Forbidden for a token of one cloud."""
    if request.scope["state"]["caller"].cloud is not None:
        raise Forbidden("your token is for one cloud, and venues are of no cloud")
