"""JSON schemas of the answers, as the OpenAPI document has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET

from app.api.wire.events import AnyEventAnswer, NoticeAnswer
from tenure_client.forms.answer import Answer

Schemas = dict[str, Any]
_COMPONENT = "#/components/schemas/{name}"


def schemas_of(forms: Iterable[type[Answer]]) -> Schemas:
    """Return the schemas of the forms and of all that they hold, by name.

    A default stands for what an older service leaves out; this one writes the field, so it is required.
    """
    _, schemas = msgspec.json.schema_components(forms, ref_template=_COMPONENT)
    for schema in schemas.values():
        required = set(schema["required"])
        schema["required"] = [
            name
            for name, field in schema["properties"].items()
            if name in required or field.pop("default", UNSET) is not UNSET
        ]
    return schemas


def event_schemas() -> Schemas:
    """Return the schemas of every kind of event, of `Event`, which is any of them, and of `Notice`."""
    kinds = {"Event": get_args(AnyEventAnswer), "Notice": get_args(NoticeAnswer)}
    schemas = schemas_of(kinds["Event"])
    return schemas | {name: _one_of(schemas, forms) for name, forms in kinds.items()}


def _one_of(schemas: Schemas, forms: Iterable[type[Answer]]) -> Schemas:
    refs = [_COMPONENT.format(name=form.__name__) for form in forms]
    kinds = [schemas[form.__name__]["properties"]["kind"]["enum"][0] for form in forms]
    discriminator = {"propertyName": "kind", "mapping": dict(zip(kinds, refs, strict=True))}
    return {"oneOf": [{"$ref": ref} for ref in refs], "discriminator": discriminator}
