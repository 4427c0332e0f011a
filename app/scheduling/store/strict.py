"""The shape of a dataclass's JSON, used to find fields that this program does not know.

msgspec ignores unknown fields of a dataclass. A field ignored on reading an event would be missing when the resulting
state is written back.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec


def shape_of(kind: type[Any]) -> type[msgspec.Struct]:
    """Return a struct with the fields of this dataclass, and of those within it, that rejects any other field.

    It decodes no values, so it costs little beside the actual decoding.
    """
    hints = get_type_hints(kind)
    known = [(field.name, _value(hints[field.name]), None) for field in fields(kind)]
    return msgspec.defstruct(f"{kind.__name__}Shape", known, forbid_unknown_fields=True)


def _value(hint: Any) -> Any:  # noqa: ANN401 - a type hint may be anything
    if is_dataclass(hint):
        return shape_of(hint)  # type: ignore[arg-type]
    origin, parts = get_origin(hint), get_args(hint)
    within = next((_value(part) for part in parts if _value(part) is not msgspec.Raw), None)
    if within is None:
        return msgspec.Raw
    if origin in (Union, types.UnionType):
        return within | None
    return list[within]  # type: ignore[valid-type]
