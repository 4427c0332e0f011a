"""The types that the wire's fields are made of.

Bodies are read strictly: no "3" for 3, no true for 1, nothing unknown. Times and durations come as RFC 3339 and as
seconds, and are exact: what is finer than a microsecond is refused, not rounded. Inside they are whole microseconds,
so a field `lifetime_us` has the alias `lifetime_s` on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.domain.times import DAY_US, MAX_TIME_US, SECOND_US, from_datetime, parse_seconds
from app.domain.values import NAME_PATTERN

LONGEST_S = 10 * 366 * DAY_US // SECOND_US
"""Ten years: no duration on the wire is longer."""
_SIZE_MAX = 1 << 30
_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


class Body(BaseModel):
    """A request's JSON body, or a part of it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    most_bytes: ClassVar[int] = 1 << 14
    most_values: ClassVar[int] = 256
    """What a request's body may have of them; checked before it is read."""


class Query(BaseModel):
    """A request's query parameters, which all come as text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _seconds(exact: Callable[[object], int | None], lowest_s: int) -> Callable[[object], int]:
    """A validator from seconds to microseconds; `exact` reads the number."""

    def validate(value: object) -> int:
        us = exact(value)
        if us is None:
            raise PydanticCustomError("seconds", "must be a number of seconds with at most six decimals")
        if not lowest_s * SECOND_US <= us <= LONGEST_S * SECOND_US:
            bounds = {"lowest": lowest_s, "longest": LONGEST_S}
            raise PydanticCustomError("seconds_range", "must be from {lowest} to {longest} seconds", bounds)
        return us

    return validate


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is the whole number 3, and some programs write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_text(value: object) -> int | None:
    return parse_seconds(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else None


def _of_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2 * LONGEST_S:
        return None
    us = round(value * SECOND_US)
    return us if us / SECOND_US == value else None


def _time(value: object) -> int:
    """Microseconds of an RFC 3339 time."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise PydanticCustomError("time", "must be an RFC 3339 time with an offset and at most six decimals")
    try:
        at_us = from_datetime(datetime.fromisoformat(value))
    except ValueError:
        raise PydanticCustomError("time", "is not a time that exists") from None
    if not 0 <= at_us <= MAX_TIME_US:
        raise PydanticCustomError("time_range", "must be from 1970 to 9999")
    return at_us


def _number_schema(lowest_s: int) -> dict[str, Any]:
    return {"type": "number", "minimum": lowest_s, "maximum": LONGEST_S, "examples": [3600]}


Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Probability = Annotated[float, Field(gt=0, lt=1)]
WHOLE = BeforeValidator(_whole)
"""Stands after the bounds of a whole number in a body."""
Cores = Annotated[int, Field(ge=1, le=65_536), WHOLE]
Size = Annotated[int, Field(ge=0, le=_SIZE_MAX), WHOLE]
WholeSeconds = Annotated[int, BeforeValidator(_seconds(_of_number, 0)), WithJsonSchema(_number_schema(0))]
PositiveSeconds = Annotated[int, BeforeValidator(_seconds(_of_number, 1)), WithJsonSchema(_number_schema(1))]
SecondsInQuery = Annotated[int, BeforeValidator(_seconds(_of_text, 0)), WithJsonSchema(_number_schema(0))]
Time = Annotated[
    int,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["1970-01-02T00:00:00Z"]}),
]
AT = "When, on a cloud with an external clock; leave it out where the clock is the server's."


def seconds(us: int) -> int | float:
    """Microseconds as the wire's seconds."""
    whole, rest = divmod(us, SECOND_US)
    return us / SECOND_US if rest else whole


def optional_seconds(us: int | None) -> int | float | None:
    """The same of what may be absent."""
    return None if us is None else seconds(us)
