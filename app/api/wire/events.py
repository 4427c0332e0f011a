"""The event log as a feed: one schema for each kind of event, made from the event's class."""

from __future__ import annotations

from dataclasses import dataclass, fields, make_dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from fastapi.sse import format_sse_event
from pydantic import Field, SerializeAsAny

from app.api.wire.clouds import PolicyAnswer
from app.api.wire.fields import Answer, Query
from app.api.wire.instances import QuoteAnswer
from app.api.wire.nodes import ResourcesAnswer, VictimAnswer
from app.api.wire.paging import Limit, Link
from app.domain.events import Recorded, wire
from app.domain.events.kinds import Group, Kind
from app.domain.events.registry import KINDS
from app.domain.values import Basis, Policy, Resources

_ENCODE = msgspec.json.Encoder().encode
_ANSWERS: dict[Any, type] = {Policy: PolicyAnswer, Resources: ResourcesAnswer, Basis: QuoteAnswer}
"""The schemas of what events are made of."""
_OWN = {"victims": list[VictimAnswer], "ready_at": datetime}
"""The fields of a start that its form makes itself; its deadline is its victims'."""


class EventsQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows.")] = 0
    limit: Limit = 100


class StreamQuery(Query):
    after_seq: Annotated[
        int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows; Last-Event-ID counts for more.")
    ] = 0
    limit: Annotated[int, Field(ge=1, lt=1 << 31)] | None = Field(
        None, description="End the stream after so many events; without it, it goes on."
    )


def _form(kind: Kind) -> type:
    """Return the schema of a kind of event."""
    told = {field.name: field.metadata.get("description") for field in fields(kind.form)}
    known = [field for field in wire.fields_on_wire(kind.form) if field.wire_name != "at"]
    is_start = any(field.wire_name == "victims" for field in known)
    of_kind = [
        (field.wire_name, _described(_OWN.get(field.wire_name, _schema_of(field)), told[field.name]))
        for field in known
        if not (is_start and field.wire_name == "deadline")
    ]
    head = [("seq", int), ("at", datetime), ("kind", Literal[kind.name])]
    return make_dataclass(
        f"{kind.form.__name__}Answer",
        [*head, *of_kind],
        bases=(Answer,),
        kw_only=True,
        slots=True,
        namespace={"__module__": __name__},
    )


def _schema_of(field: wire.Field) -> object:
    if field.name in wire.TIMES:
        plain: Any = datetime
    elif field.name.endswith("_us"):
        plain = int | float
    else:
        plain = _ANSWERS.get(field.kind, field.kind)
    return plain | None if field.optional else plain


def _described(schema: object, description: str | None) -> object:
    return schema if description is None else Annotated[schema, Field(description=description)]


if TYPE_CHECKING:
    NoticeAnswer = dict[str, Any]
    AnyEventAnswer = dict[str, Any]
else:
    _FORMS = {kind.name: _form(kind) for kind in KINDS.values()}
    _NOTICES = [form for name, form in _FORMS.items() if KINDS[name].group is Group.NOTICE]
    # What is written is the event's own JSON object; the forms are there for the schema.
    NoticeAnswer = SerializeAsAny[Annotated[reduce(or_, _NOTICES), Field(discriminator="kind")]]
    AnyEventAnswer = SerializeAsAny[Annotated[reduce(or_, _FORMS.values()), Field(discriminator="kind")]]


@dataclass(slots=True, kw_only=True)
class EventsAnswer(Answer):
    events: Annotated[list[AnyEventAnswer], Field(description="In log order.")]
    links: list[Link]


def event_json(recorded: Recorded) -> bytes:
    """Return the event as JSON, just as it stands in a page of the log."""
    return _ENCODE(wire.to_wire(recorded))


def event_frame(recorded: Recorded) -> bytes:
    """Return the event as a server-sent event: its seq is the id, its kind the name."""
    answer = wire.to_wire(recorded)
    return format_sse_event(data_str=_ENCODE(answer).decode(), event=answer["kind"], id=str(recorded.seq))
