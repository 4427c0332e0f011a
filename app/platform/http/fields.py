"""The types of the fields on the wire.

Bodies are read strictly: "3" is not 3, true is not 1, and unknown fields are errors. Times are RFC 3339, durations are
seconds, and both are exact: values finer than a microsecond are refused, not rounded. Inside they are whole
microseconds, so a field `lifetime_us` is `lifetime_s` on the wire, as in events (domain/events/wire.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from app.domain.events.wire import wire_name
from app.domain.inputs import NUMBER
from app.domain.times import LONGEST_LIFETIME_US, MAX_TIME_US, SECOND_US, from_datetime, seconds
from app.domain.values import LEAST_PROBABILITY, MOST_CORES, NAME_PATTERN

LONGEST_S = LONGEST_LIFETIME_US // SECOND_US
"""The longest duration allowed on the wire: ten years."""
_SIZE_MAX = 1 << 30
_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
_HUGE = 10**27
"""No number in a query is so large. Up to here decimals are exact, and no exponent makes a billion digits."""
_TOO_LONG_US = 2 * LONGEST_S * SECOND_US
"""Stands for any longer duration, and for one so far below 0: it is refused for its length."""


class _OnTheWire(BaseModel):
    """A part of a request. Its schema tells defaults as they are on the wire: in seconds."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        for name, field in cls.model_fields.items():
            told = schema["properties"].get(wire_name(name), {})
            if isinstance(field.default, BaseModel):
                told.pop("default", None)  # its own fields tell theirs
            elif name.endswith("_us") and told.get("default") is not None:
                us = told["default"]
                told["default"] = [*map(seconds, us)] if isinstance(us, list | tuple) else seconds(us)
        return schema


class Body(_OnTheWire):
    """A request's JSON body, or a part of it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, alias_generator=wire_name)
    most_bytes: ClassVar[int] = 1 << 14
    most_values: ClassVar[int] = 256
    """The number of values that a request's body may have, checked before it is read."""


class Query(_OnTheWire):
    """The query parameters of a request, which arrive as text. Numbers are written as in bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, alias_generator=wire_name)

    @field_validator("*", mode="wrap")
    @classmethod
    def _check_number(cls, text: object, read: ValidatorFunctionWrapHandler) -> object:
        try:
            value = read(text)
        except ValidationError as error:
            whole = _plain_whole(text) if error.errors()[0]["type"] == "int_parsing" else None
            if whole is None:
                raise
            value = read(whole)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (NUMBER.fullmatch(str(text)) or _RFC3339.fullmatch(str(text))):
            raise PydanticCustomError("number", "must be a number as JSON has it")
        return value


def _seconds(exact: Callable[[object], int | None], lowest_s: int) -> Callable[[object], int]:
    """Return a validator from seconds to microseconds; `exact` reads the number."""

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
    """Return 3.0 as 3: JSON has one kind of number, and some programs write whole ones that way."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain_whole(text: object) -> str | None:
    """Return a whole number that JSON may write with an exponent without one, as 1e3; None for any other text."""
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    is_whole = abs(number) < _HUGE and number == number.to_integral_value()
    return str(int(number)) if is_whole else None


def _of_text(value: object) -> int | None:
    """Return the microseconds of a number as JSON has it; None if it is none, or finer than a microsecond."""
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        return None
    try:
        number = Decimal(value)
    except ArithmeticError:  # an exponent of some twenty digits
        return None
    if abs(number) > 2 * LONGEST_S:
        return _TOO_LONG_US
    us = int(number * SECOND_US)
    return us if Decimal(us) / SECOND_US == number else None


def _of_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    if abs(value) > 2 * LONGEST_S:
        return _TOO_LONG_US
    us = round(value * SECOND_US)
    return us if us / SECOND_US == value else None


def exact_time(value: object) -> int:
    """Return the microseconds of an RFC 3339 time. Raise PydanticCustomError if the value is none."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise PydanticCustomError("time", "must be an RFC 3339 time with an offset and at most six decimals")
    try:
        at_us = from_datetime(datetime.fromisoformat(value))
    except ValueError:
        raise PydanticCustomError("time", "is not a time that exists") from None
    if not 0 <= at_us <= MAX_TIME_US:
        raise PydanticCustomError("time_range", "must be from 1970 to 9999")
    return at_us


def at_most(longest_us: int) -> AfterValidator:
    """Return a validator of seconds that are bounded more narrowly; `json_schema_extra` has to tell it, too."""

    def validate(us: int) -> int:
        if us > longest_us:
            raise PydanticCustomError(
                "seconds_range", "must be at most {longest} seconds", {"longest": seconds(longest_us)}
            )
        return us

    return AfterValidator(validate)


def _number_schema(lowest_s: int) -> dict[str, Any]:
    return {"type": "number", "minimum": lowest_s, "maximum": LONGEST_S, "examples": [3600]}


whole_seconds = _seconds(_of_number, 0)
"""Returns a number of seconds as microseconds. Raises PydanticCustomError if it is not exact, or out of range."""


Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Probability = Annotated[float, Field(ge=LEAST_PROBABILITY, lt=1)]
WHOLE = BeforeValidator(_whole)
"""Accepts 3.0 for 3. It must stand after the bounds of a whole number in a body."""
Cores = Annotated[int, Field(ge=1, le=MOST_CORES), WHOLE]
Size = Annotated[int, Field(ge=0, le=_SIZE_MAX), WHOLE]
WholeSeconds = Annotated[int, BeforeValidator(whole_seconds), WithJsonSchema(_number_schema(0))]
PositiveSeconds = Annotated[int, BeforeValidator(_seconds(_of_number, 1)), WithJsonSchema(_number_schema(1))]
PositiveSecondsInQuery = Annotated[int, BeforeValidator(_seconds(_of_text, 1)), WithJsonSchema(_number_schema(1))]
SecondsInQuery = Annotated[int, BeforeValidator(_seconds(_of_text, 0)), WithJsonSchema(_number_schema(0))]
Time = Annotated[
    int,
    BeforeValidator(exact_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["1970-01-02T00:00:00Z"]}),
]
AT = "When, on a cloud with an external clock; leave it out where the clock is the server's."
AT_OR_NOW = f"{AT} A change of the cloud without it happens at the time of its log."


def optional_seconds(us: int | None) -> int | float | None:
    """Return microseconds as seconds on the wire; None stays None."""
    return None if us is None else seconds(us)


def guaranteed_seconds(us: int | None) -> int | float | None:
    """Return a guaranteed lifetime on the wire; what exceeds the longest that can be declared is told as that one."""
    return None if us is None else seconds(min(us, LONGEST_LIFETIME_US))
