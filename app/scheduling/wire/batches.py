"""Valid operations of a batch, decoded by a compiled reader in a fifth of the time that their forms take.

It may refuse what the forms accept, but never the other way round. Whoever meets a refusal reads with the forms of
`instances`, which are the truth and say what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from pydantic_core import PydanticCustomError

from app.domain.requests import Operation, StartRequest, StopRequest
from app.domain.times import SECOND_US
from app.domain.values import LEAST_PROBABILITY, NAME_PATTERN, Market
from app.platform.http.bodies import refuse_repeated
from app.platform.http.errors import FieldInvalid
from app.platform.http.fields import LONGEST_S, exact_time, whole_seconds

MOST_BYTES = 256
"""The length of an operation that is read here. A valid one that is no longer cannot hold too many values, however
often it repeats its keys."""

# `$` would also match before a line break at the end.
_NameRead = Annotated[str, msgspec.Meta(pattern=rf"^{NAME_PATTERN}\Z")]
_TimeRead = Annotated[str, msgspec.Meta(pattern=r"^[0-9TZ:.+-]+\Z")]
_ProbabilityRead = Annotated[float, msgspec.Meta(ge=LEAST_PROBABILITY, lt=1)]


class _StartRead(msgspec.Struct, forbid_unknown_fields=True):
    id: _NameRead
    market: Market
    flavor: _NameRead
    lifetime_s: int | float | None = None
    eviction_probability: _ProbabilityRead | None = None
    at: _TimeRead | None = None


class _StopRead(msgspec.Struct, forbid_unknown_fields=True):
    id: _NameRead
    at: _TimeRead | None = None


class _OperationRead(msgspec.Struct, forbid_unknown_fields=True):
    start: _StartRead | msgspec.UnsetType = msgspec.UNSET
    stop: _StopRead | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(list[_OperationRead]).decode


def read_valid(content: msgspec.Raw, parts: Sequence[msgspec.Raw], owner: str | None) -> list[Operation] | None:
    """Return the operations of an array of JSON, or None if the forms must read them. `parts` are its elements."""
    if max(map(len, parts)) > MOST_BYTES:
        return None
    try:
        read = _decode(content)
        refuse_repeated(bytes(content), sum(map(_colons, read)))
        return [_operation(one, owner) for one in read]
    except (msgspec.DecodeError, UnicodeDecodeError, PydanticCustomError, FieldInvalid):
        return None


def _colons(read: _OperationRead) -> int:
    """Return the number of colons that the operation has at least: one for each field, and those of its time."""
    start, stop = read.start, read.stop
    if isinstance(start, _StartRead):
        given = 4 + (start.lifetime_s is not None) + (start.eviction_probability is not None)
        return given if start.at is None else given + 1 + start.at.count(":")
    if isinstance(stop, _StopRead):
        return 2 if stop.at is None else 3 + stop.at.count(":")
    return 0


def _operation(read: _OperationRead, owner: str | None) -> Operation:
    start, stop = read.start, read.stop
    if isinstance(start, _StartRead) and stop is msgspec.UNSET:
        lifetime_us, at_us = _lifetime_us(start.lifetime_s), None if start.at is None else exact_time(start.at)
        return StartRequest(start.id, start.market, start.flavor, lifetime_us, start.eviction_probability, at_us, owner)
    if isinstance(stop, _StopRead) and start is msgspec.UNSET:
        return StopRequest(stop.id, None if stop.at is None else exact_time(stop.at), owner)
    raise msgspec.ValidationError("neither a start nor a stop, or both")


def _lifetime_us(given: float | None) -> int | None:
    if given is None or (type(given) is int and 0 <= given <= LONGEST_S):
        return given and int(given) * SECOND_US
    return whole_seconds(given)
