"""JSON schemas of answers and of events for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from enum import EnumType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, defstruct

from app.domain.events import wire
from app.domain.events.kinds import Group, Kind
from app.domain.events.registry import KINDS
from app.domain.jobs import LinkRate
from app.domain.values import Acceptable, Basis, Policy, ProposedMove, Resources
from app.domain.wanted import Wanted
from tenure_client.forms.answer import Moment, Seconds, one_of
from tenure_client.forms.clouds import PolicyAnswer
from tenure_client.forms.instances import AcceptableAnswer, ProposedMoveAnswer, QuoteAnswer, WantedAnswer
from tenure_client.forms.nodes import ResourcesAnswer, VictimAnswer
from tenure_client.forms.peers import LinkRateAnswer

Schemas = dict[str, Any]
_COMPONENT = "#/components/schemas/{name}"
_PARTS: dict[Any, Any] = {
    Policy: PolicyAnswer,
    Resources: ResourcesAnswer,
    Basis: QuoteAnswer,
    Wanted: WantedAnswer,
    Acceptable: AcceptableAnswer,
    LinkRate: LinkRateAnswer,
    tuple[ProposedMove, ...]: list[ProposedMoveAnswer],
}
"""The forms of the values that events consist of."""
_OWN: dict[str, Any] = {"victims": list[VictimAnswer], "ready_at": Moment}
"""The fields of a start that its own form adds. Its deadline stands with its victims."""


def schemas_of(forms: Iterable[type[Struct]]) -> Schemas:
    """Return the schemas of the forms and of everything in them, by name.

    Fields with defaults are optional only in answers of older services; this one writes them all, so they are required.
    """
    _, schemas = msgspec.json.schema_components(forms, ref_template=_COMPONENT)
    for schema in schemas.values():
        required = set(schema.get("required", ()))
        if "properties" in schema:
            schema["required"] = [
                name
                for name, field in schema["properties"].items()
                if field.pop("default", UNSET) is not UNSET or name in required
            ]
    return schemas


def event_schemas() -> Schemas:
    """Return the schemas of every kind of event, of `Event`, which is any of them, and of `Notice`."""
    forms = {kind.name: _form(kind) for kind in KINDS.values()}
    notices = {name: form for name, form in forms.items() if KINDS[name].group is Group.NOTICE}
    return schemas_of(forms.values()) | {"Event": _one_of(forms), "Notice": _one_of(notices)}


def _one_of(forms: dict[str, type[Struct]]) -> Schemas:
    refs = {name: _COMPONENT.format(name=form.__name__) for name, form in forms.items()}
    discriminator = {"propertyName": "kind", "mapping": refs}
    return {"oneOf": [{"$ref": ref} for ref in refs.values()], "discriminator": discriminator}


def _form(kind: Kind) -> type[Struct]:
    """Return the form of a kind of event, made from the event's class."""
    told = {field.name: field.metadata.get("description") for field in fields(kind.form)}
    known = [field for field in wire.fields_on_wire(kind.form) if field.wire_name != "at"]
    is_start = any(field.wire_name == "victims" for field in known)
    of_kind = [
        (field.wire_name, _described(_OWN.get(field.wire_name, _type_of(field)), told[field.name]))
        for field in known
        if not (is_start and field.wire_name == "deadline")
    ]
    head = [("seq", int), ("at", Moment), ("kind", Literal[kind.name])]
    return defstruct(f"{kind.form.__name__}Answer", [*head, *of_kind], kw_only=True)


def _type_of(field: wire.Field) -> Any:  # noqa: ANN401 - a type, or an annotation
    if field.name in wire.TIMES:
        plain: Any = Moment
    elif field.name.endswith("_us"):
        plain = Seconds
    elif isinstance(field.kind, EnumType):
        plain = Annotated[str, one_of(field.kind, field.kind.__doc__)]
    else:
        plain = _PARTS.get(field.kind, field.kind)
    return plain | None if field.optional else plain


def _described(schema: Any, description: str | None) -> Any:  # noqa: ANN401 - as above
    return schema if description is None else Annotated[schema, Meta(description=description)]
