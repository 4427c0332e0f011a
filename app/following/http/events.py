"""Handlers for the event log as a feed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.events.wire import to_wire
from app.domain.values import Role
from app.following.feed import Feed
from app.following.http.streams import EventStream
from app.platform.http.auth import authorise, caller_of
from app.platform.http.bodies import read_query
from app.platform.http.errors import FieldInvalid
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.log_reads import LogReads
from app.scheduling.scheduler import Scheduler
from app.scheduling.wire.events import EventsQuery, StreamQuery
from tenure_client.forms.events import EventsAnswer

_SEQ_DIGITS = 18


async def list_events(request: Request) -> Response:
    """List the events after a seq, in log order. A reader that keeps the last seq it saw misses nothing."""
    query = read_query(request, EventsQuery)
    page = await reached(request, LogReads).events(request.path_params["cloud"], query.after_seq, query.limit)
    events = await first_answers(page.items, to_wire)
    marker = marker_after(page.items, len(events), lambda recorded: str(recorded.seq), page.marker)
    return respond(EventsAnswer(events=events, links=next_link(request, marker, "after_seq")))


async def stream_events(request: Request) -> Response:
    """Stream the events after a seq as server-sent events, and each later one when it comes.

    An event's id is its seq, its name is its kind, and its data is the JSON of the paged list. A reader that sends the
    last id it kept as `Last-Event-ID` gets every event exactly once and in order, whatever ended the stream before: its
    own death, the service's, or the longest time that one stream may last. Comments are sent while there is nothing to
    tell. If the log is put back to an earlier end meanwhile, the last frame has the name
    `log_put_back` and the error answer `preemptible.log.put_back`.
    """
    query = read_query(request, StreamQuery)
    cloud_id = await reached(request, Scheduler).cloud_id(request.path_params["cloud"])
    last_id = _last_event_id(request)
    after_seq = query.after_seq if last_id is None else last_id
    await reached(request, Feed).check_readable(cloud_id, after_seq)

    async def may_go_on() -> None:
        await authorise(request, Role.READER)

    return EventStream(
        reached(request, Feed),
        cloud_id,
        after_seq,
        query.limit,
        owner=caller_of(request).id,
        request_id=request.scope["state"]["request_id"],
        may_go_on=may_go_on,
    )


def _last_event_id(request: Request) -> int | None:
    text = request.headers.get("last-event-id")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _SEQ_DIGITS:
        raise FieldInvalid("Last-Event-ID: must be the id of an event, which is its seq")
    return int(text)
