"""Handler for advice on checkpoints of a job on a machine of a venue."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.clusters.venue_advising import BidAdvising
from app.clusters.wire.venue_advice import BidAdviceQuery, bid_advice_answer
from app.platform.http.bodies import read_query
from app.platform.http.reached import reached
from app.platform.http.respond import respond


async def advise_venue_checkpoint(request: Request) -> Response:
    """Tell when a job on a machine that was bought under a bid should be checkpointed. Nothing is changed or recorded.

    The hazard is counted in the pool's own past: how often the price rose above the bid from as near to it, after as
    long within it. Where machines end for lack of capacity it comes from what was observed of them.
    """
    query, venue = read_query(request, BidAdviceQuery), request.path_params["venue"]
    found = await reached(request, BidAdvising).advise(
        venue, query.words(), query.question(), query.terms(query.age_us)
    )
    return respond(bid_advice_answer(found))
