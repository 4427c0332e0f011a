"""The JSON form of events and of the values in them, derived from their classes field by field.

On the wire, times are RFC 3339 and lengths of time are seconds; both are exact. A field `x_us` becomes `x_s`, or `x`
if it is a time; `RENAMED` lists fields with another name. Only starts have a form of their own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from app.domain.events import InstanceStarted, Recorded
from app.domain.events.registry import KINDS
from app.domain.times import SECOND_US, from_rfc3339, rfc3339, seconds
from app.domain.values import Resources

RENAMED = {
    "instance_id": "id",
    "probability": "eviction_probability",
    "basis": "quote",
    "quoted_lifetime_us": "lifetime_s",
    "estimated_probability": "estimated_eviction_probability",
    "probability_bound": "eviction_probability_bound",
    "affordable_us": "affordable_lifetime_s",
    "ready_us": "ready_at",
    "enough_us": "enough_at",
    "reclaim_us": "reclaim_at",
    "until_us": "until",
    "ends_us": "ends_at",
}
TIMES = frozenset({"at_us", "deadline_us", "ready_us", "enough_us", "reclaim_us", "until_us", "ends_us"})
"""Fields that are points in time. All other fields that end in `_us` are lengths of time."""

Json = dict[str, Any]
Convert = Callable[[Any], Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a class on the wire. `kind` is its type without None. `write` and `read` are None for plain values."""

    name: str
    wire_name: str
    kind: Any
    optional: bool
    write: Convert | None
    read: Convert | None


@dataclass(frozen=True, slots=True)
class _Form(Generic[T]):
    """The wire form of a class, analysed once so that plain fields need no conversion step.

    `values` reads all fields of an instance and `wire_values` those of a JSON object. `writes` and `reads` convert the
    fields that are not plain.
    """

    make: Callable[..., T]
    fields: tuple[Field, ...]
    names: tuple[str, ...]
    wire_names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    wire_values: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    writes: tuple[tuple[str, Convert], ...]
    reads: tuple[tuple[str, Convert], ...]


_FORMS: dict[type, _Form[Any]] = {}


# --- values ----------------------------------------------------------------------------------------------------------


def value_to_wire(value: object) -> Json:
    """Return a policy, or another dataclass of values, as a JSON object."""
    return _written({}, _form(type(value)), value)


def value_of_wire(kind: type[T], json: Mapping[str, Any]) -> T:
    """Return the value that `value_to_wire` wrote. Raise ValueError if a field is missing or unreadable.

    Missing fields take their defaults; unknown fields are ignored.
    """
    return _read(_form(kind), json)


def _read(form: _Form[T], json: Mapping[str, Any]) -> T:
    try:
        given = dict(zip(form.names, form.wire_values(json), strict=True))
    except KeyError:
        given = {one.name: json[one.wire_name] for one in form.fields if one.wire_name in json}
    for name, read in form.reads:
        if (plain := given.get(name)) is not None:
            given[name] = read(plain)
    try:
        return form.make(**given)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _written(wire: Json, form: _Form[Any], value: object) -> Json:
    wire.update(zip(form.wire_names, form.values(value), strict=True))
    for name, write in form.writes:
        if (plain := wire[name]) is not None:
            wire[name] = write(plain)
    return wire


def fields_on_wire(kind: type) -> tuple[Field, ...]:
    """Return the fields of a class as they stand on the wire."""
    return _form(kind).fields


def _form(kind: type[T]) -> _Form[T]:
    if kind not in _FORMS:
        _FORMS[kind] = _taken_apart(kind)
    return _FORMS[kind]


def _taken_apart(kind: type[T]) -> _Form[T]:
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    found = tuple(_field(one.name, hints[one.name]) for one in fields(kind))
    names, wire_names = tuple(one.name for one in found), tuple(one.wire_name for one in found)
    writes = tuple((one.wire_name, one.write) for one in found if one.write is not None)
    reads = tuple((one.name, one.read) for one in found if one.read is not None)
    return _Form(kind, found, names, wire_names, attrgetter(*names), itemgetter(*wire_names), writes, reads)


def _field(name: str, hint: object) -> Field:
    arguments = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    (kind,) = (one for one in arguments if one is not types.NoneType)
    return Field(name, wire_name(name), kind, len(arguments) > 1, *_conversion(name, kind))


def wire_name(name: str) -> str:
    """Return the name that a field has on the wire."""
    if name in RENAMED:
        return RENAMED[name]
    return name.removesuffix("_us") + ("_s" if name.endswith("_us") and name not in TIMES else "")


def _conversion(name: str, kind: object) -> tuple[Convert | None, Convert | None]:
    if name in TIMES:
        return rfc3339, from_rfc3339
    if name.endswith("_us") and get_origin(kind) is tuple:
        return lambda given: [*map(seconds, given)], lambda given: tuple(round(one * SECOND_US) for one in given)
    if name.endswith("_us"):
        return seconds, lambda given: round(given * SECOND_US)
    if get_origin(kind) is tuple and is_dataclass(part := get_args(kind)[0]):
        write, read = _conversion("", part)
        assert write is not None
        assert read is not None
        return lambda given: [*map(write, given)], lambda given: tuple(map(read, given))
    if get_origin(kind) is tuple:
        return list, tuple
    if isinstance(kind, type) and issubclass(kind, Enum):
        return None, kind
    if isinstance(kind, type) and is_dataclass(kind):
        form = _form(kind)
        return lambda value: _written({}, form, value), lambda given: _read(form, given)
    if kind is Resources:
        return Resources._asdict, lambda given: Resources(**given)
    return None, None


# --- events ----------------------------------------------------------------------------------------------------------


def to_wire(recorded: Recorded) -> Json:
    """Return an event and its seq as a JSON object."""
    event = recorded.event
    name, form = _OF_CLASS[type(event)]
    wire = _written({"seq": recorded.seq, "at": None, "kind": name}, form, event)
    return _started_to_wire(wire) if type(event) is InstanceStarted else wire


def of_wire(json: Mapping[str, Any]) -> Recorded:
    """Return the event of a JSON object. Raise ValueError if its kind is unknown or it is unreadable."""
    form = _OF_NAME.get(json["kind"])
    if form is None:
        raise ValueError(f"event {json['seq']} is of the unknown kind {json['kind']!r}")
    return Recorded(json["seq"], _read(form, _started_of_wire(json) if form is _STARTED else json))


def _started_to_wire(wire: Json) -> Json:
    """Give each victim the common deadline, and write `ready_at` in any case."""
    deadline = wire.pop("deadline")
    wire["victims"] = [{"id": victim, "deadline": deadline} for victim in wire["victims"]]
    wire["ready_at"] = wire["ready_at"] or wire["at"]
    return wire


def _started_of_wire(json: Mapping[str, Any]) -> Json:
    wire, victims = dict(json), json["victims"]
    wire["victims"] = [victim["id"] for victim in victims]
    wire["deadline"] = victims[0]["deadline"] if victims else None
    wire["ready_at"] = None if json["ready_at"] == json["at"] else json["ready_at"]
    return wire


_OF_NAME: dict[str, _Form[Any]] = {kind.name: _form(kind.form) for kind in KINDS.values()}
_STARTED = _form(InstanceStarted)
_OF_CLASS: dict[type, tuple[str, _Form[Any]]] = {kind.form: (kind.name, _form(kind.form)) for kind in KINDS.values()}
