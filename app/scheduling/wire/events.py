"""The event log as a feed."""

from __future__ import annotations

from typing import Annotated

from fastapi.sse import format_sse_event
from pydantic import Field

from app.domain.events import Recorded, wire
from app.platform.http.fields import Query
from app.platform.http.page_forms import Limit
from app.scheduling.wire.eventjson import encode


class EventsQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows.")] = 0
    limit: Limit = 100


class StreamQuery(Query):
    after_seq: Annotated[
        int,
        Field(
            ge=0,
            lt=1 << 63,
            description="The last event that the caller knows. The header Last-Event-ID takes precedence.",
        ),
    ] = 0
    limit: Annotated[int, Field(ge=1, lt=1 << 31)] | None = Field(
        None, description="End the stream after this many events. Without it, the stream goes on."
    )


def event_frame(recorded: Recorded) -> bytes:
    """Return the event as a server-sent event: its seq is the id, its kind the name."""
    answer = wire.to_wire(recorded)
    return format_sse_event(data_str=encode(answer).decode(), event=answer["kind"], id=str(recorded.seq))
