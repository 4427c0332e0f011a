"""The fields of a request, written as JSON or in a query. JSON has no word for NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite

import msgspec

from tenure_client.errors import ValueInvalid
from tenure_client.forms.answer import Json
from tenure_client.values import Abort, Extend, Move, Observe, Start, Stop

_encode = msgspec.json.Encoder().encode


def encoded(body: Json) -> bytes:
    """Return a body as JSON. Raise ValueInvalid for a value that it cannot hold: null would mean no limit."""
    check(body)
    return _encode(body)


def steps_of(operations: Iterable[object]) -> list[Json]:
    """Return the operations of a batch as JSON, each under its name. Raise ValueInvalid for what is none."""
    kinds = Start, Stop, Extend, Move, Observe, Abort
    takes = f"a batch takes {', '.join(kind.__name__ for kind in kinds[:-1])} and {kinds[-1].__name__}"
    if not isinstance(operations, Iterable):
        raise ValueInvalid("operations", f"must be a list: {takes}")
    steps = list[Json]()
    for number, one in enumerate(operations):
        if not isinstance(one, kinds):
            raise ValueInvalid(f"operations.{number}", f"{takes}, not {type(one).__name__}")
        steps.append({type(one).__name__.lower(): msgspec.to_builtins(one)})
    return steps


def check(fields: Json) -> None:
    """Raise ValueInvalid if a number is not finite, or whole and too large, or if a text is not Unicode."""
    for name, value in _values("", fields):
        if isinstance(value, float) and not isfinite(value):
            raise ValueInvalid(name, f"must be a finite number, not {value}")
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ValueInvalid(name, "must be a whole number, and not so large")
        if isinstance(value, str) and not is_unicode(value):
            raise ValueInvalid(name, "must be a text in UTF-8")


def is_unicode(text: str) -> bool:
    """Return False if a text holds half of a character, as of a file's name that is not UTF-8."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _values(place: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the values inside, each with the name of its field."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if isinstance(name, str) and not is_unicode(name):
                yield f"{place}{name!a}", name
            yield from _values(f"{place}{name}.", inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _values(f"{place}{number}.", inner)
    else:
        yield place.removesuffix("."), value
