"""Events of the log. Kinds unknown here, written by a newer service, are read too."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Json, Link, Moment

EventJson = Annotated[Json, Meta(extra_json_schema={"$ref": "#/components/schemas/Event"})]
NoticeJson = Annotated[Json, Meta(extra_json_schema={"$ref": "#/components/schemas/Notice"})]
PUT_BACK = "log_put_back"
"""The name of the frame that ends a stream if the log was put back to an earlier end. Its data is an error answer."""


class EventsAnswer(Answer, kw_only=True):
    events: Annotated[list[EventJson], Meta(description="In log order.")]
    links: list[Link]


class EventAnswer(Answer, kw_only=True):
    """An event of the log. `fields` holds all fields of its kind, also of kinds unknown here."""

    seq: int
    at: Moment
    kind: str
    fields: Json


def event_of(fields: Json) -> EventAnswer:
    """Return the event of a JSON object. Raise KeyError, TypeError or ValueError if it is none."""
    return EventAnswer(seq=fields["seq"], at=datetime.fromisoformat(fields["at"]), kind=fields["kind"], fields=fields)
