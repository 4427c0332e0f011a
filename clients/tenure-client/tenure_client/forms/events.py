"""Events of the log. They are read whatever their kind: a newer service may write kinds that are not known here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Json, Link, Moment

EventJson = Annotated[Json, Meta(extra_json_schema={"$ref": "#/components/schemas/Event"})]
NoticeJson = Annotated[Json, Meta(extra_json_schema={"$ref": "#/components/schemas/Notice"})]


class EventsAnswer(Answer, kw_only=True):
    events: Annotated[list[EventJson], Meta(description="In log order.")]
    links: list[Link]


class EventAnswer(Answer, kw_only=True):
    """An event of the log; `fields` holds all that the service says of its kind, also of kinds not known here."""

    seq: int
    at: Moment
    kind: str
    fields: Json


def event_of(fields: Json) -> EventAnswer:
    """Return the event that this JSON object is. KeyError, TypeError or ValueError where it is none."""
    return EventAnswer(seq=fields["seq"], at=datetime.fromisoformat(fields["at"]), kind=fields["kind"], fields=fields)
