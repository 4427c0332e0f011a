"""The event log as a feed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.api.operations import read_query
from app.api.respond import respond
from app.api.services import reading
from app.api.wire.events import EventsAnswer, EventsQuery, event_answer
from app.api.wire.paging import next_link


async def list_events(request: Request) -> Response:
    """The events after a seq, in log order. Whoever remembers the last seq it saw misses nothing."""
    query = read_query(request, EventsQuery)
    page = await reading(request).events(request.path_params["cloud"], query.after_seq, query.limit)
    events = [event_answer(recorded) for recorded in page.items]
    return respond(EventsAnswer(events=events, links=next_link(request, page.marker, "after_seq")))
