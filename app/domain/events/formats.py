"""Log formats: which of them can hold an event.

A kind (in its version) and a field say with `since` the format that introduced them, and the values of an enumeration
with `newer` (app/domain/values.py); without such a mark it is the first. Until a newer format is in force, older
programs read the log too (docs/operations.md, *Upgrading*). A newer field that has its default is then left out. An
event with another value in it cannot be written yet, unless the field `only_tells`: then it is left out too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, get_args, get_type_hints

from app.domain.errors import FormatNotInForce
from app.domain.events import Event
from app.domain.events.kinds import REGISTERED
from app.domain.events.registry import KINDS
from app.domain.events.wire import wire_name
from app.domain.values import value_since


def since_of(field: Field[Any]) -> int:
    """Return the log format that introduced a field of an event, or of a value in one."""
    return int(field.metadata.get("since", 1))


@cache
def newest_part(form: Any) -> int:  # noqa: ANN401 - a dataclass or an enumeration
    """Return the newest log format that introduced a field of the class, or a part of a class within it.

    Parts of an enumeration are its values.
    """
    if issubclass(form, Enum):
        return max(map(value_since, form))
    hints = get_type_hints(form)
    within = [newest_part(part) for hint in hints.values() for part in _classes_in(hint)]
    return max([1, *map(since_of, fields(form)), *within])


def _classes_in(hint: object) -> Iterator[type]:
    if is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, Enum)):
        yield hint  # type: ignore[misc]
    for part in get_args(hint):
        yield from _classes_in(part)


LOG_FORMAT = max(max(kind.since, newest_part(kind.form)) for kind in KINDS.values())
"""The newest log format. It rises with the first kind, version, field or value that says so."""


def is_whole_in(form: type, log_format: int) -> bool:
    """Return True if this log format can hold every event of the class, with all its fields."""
    return max(REGISTERED[form].since, newest_part(form)) <= log_format


def in_format(event: Event, log_format: int) -> object:
    """Return the form of an event in this log format: the event itself, or its fields without the newer ones.

    Raise FormatNotInForce if the format cannot hold the event.
    """
    kind = REGISTERED[type(event)]
    if kind.since > log_format:
        raise _refusal(kind.name, kind.since, log_format)
    return event if newest_part(kind.form) <= log_format else _reduced(event, log_format)


def told_in(event: Event, log_format: int) -> Event:
    """Return the event as this log format tells it: fields that only tell more have no value where it lacks them."""
    if is_whole_in(type(event), log_format):
        return event
    missing: dict[str, Any] = {
        one.name: one.default for one in fields(event) if since_of(one) > log_format and _only_tells(one)
    }
    return replace(event, **missing) if missing else event


def _only_tells(field: Field[Any]) -> bool:
    """Return True if a field's metadata say that an event is as good without it, so no older format refuses it."""
    return bool(field.metadata.get("only_tells"))


def _reduced(value: object, log_format: int, name: str = "") -> object:
    if isinstance(value, Enum) and value_since(value) > log_format:
        raise _refusal(f"the {wire_name(name)} {value.value!r}", value_since(value), log_format)
    if isinstance(value, tuple):
        return [_reduced(one, log_format, name) for one in value]
    if not is_dataclass(value):
        return value
    known = [field for field in fields(value) if not _is_left_out(field, value, log_format)]
    return {field.name: _reduced(getattr(value, field.name), log_format, field.name) for field in known}


def _is_left_out(field: Field[Any], value: object, log_format: int) -> bool:
    since = since_of(field)
    if since > log_format and getattr(value, field.name) != field.default and not _only_tells(field):
        raise _refusal(f"this {wire_name(field.name)}", since, log_format)
    return since > log_format


def _refusal(what: str, since: int, log_format: int) -> FormatNotInForce:
    return FormatNotInForce(
        f"{what} needs log format {since}, and format {log_format} is in force: "
        "finish the upgrade (tenure db upgrade --finish)"
    )
