"""Reads a log like a program of an older log format: only the kinds, fields and values of that format or before."""

from __future__ import annotations

import types
from dataclasses import field, fields, is_dataclass, make_dataclass
from enum import Enum
from functools import cache, reduce
from operator import or_
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from app.domain.events.formats import since_of
from app.domain.events.registry import KINDS
from app.domain.values import value_since
from app.scheduling.store.strict import shape_of


@cache
def cut(form: type, log_format: int) -> type:
    """The class as it was in a log format."""
    hints = get_type_hints(form)
    known = [
        (one.name, _cut_hint(hints[one.name], log_format), field(default=one.default))
        for one in fields(form)
        if since_of(one) <= log_format
    ]
    return make_dataclass(form.__name__, known, kw_only=True)


def _cut_hint(hint: Any, log_format: int) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Enum(hint.__name__, [(one.name, one.value) for one in hint if value_since(one) <= log_format])
    if get_origin(hint) is tuple:
        return tuple[_cut_hint(get_args(hint)[0], log_format), ...]  # type: ignore[misc]
    if is_dataclass(hint):
        return cut(hint, log_format)  # type: ignore[arg-type]
    if isinstance(hint, types.UnionType):
        return reduce(or_, [_cut_hint(part, log_format) for part in get_args(hint)])
    return hint


def read(kind: str, version: int, data: str, log_format: int) -> Any:
    """The event as a program of that log format reads it; it refuses everything that it does not know."""
    known = KINDS[kind]
    assert known.since <= log_format, f"{kind} came with format {known.since}"
    assert known.version == version
    form = cut(known.form, log_format)
    msgspec.json.decode(data, type=shape_of(form))
    return msgspec.json.decode(data, type=form)
