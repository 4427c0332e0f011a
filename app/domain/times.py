"""Time inside the service: whole microseconds since the cloud's zero (the Unix epoch for a system clock).

Integers keep the fold of a log equal bit for bit on every machine. Seconds and aware datetimes exist at the edges only.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

SECOND_US = 1_000_000
_MINUTE_US = 60 * SECOND_US
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
LONGEST_LIFETIME_US = 10 * 366 * DAY_US
"""The longest lifetime that can be declared: ten years."""
MAX_TIME_US = 253_402_300_799 * SECOND_US
"""The last second of the year 9999: nothing later can be written as a datetime."""
_DECIMAL = re.compile(r"-?[0-9]{1,24}(\.[0-9]{1,24})?")
"""Digits and a point, as on the wire. Python's readers take `1_0`, other scripts' digits, blanks and exponents too."""

_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_ZERO = _ZERO.replace(tzinfo=None)
"""Without a time zone, for it is written in half of the time."""
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=64)  # all decisions of a batch have one time
def to_datetime(at_us: int) -> datetime:
    """Aware UTC datetime of a time in microseconds. Later than the year 9999, as an end may be, reads as its end."""
    return _ZERO + min(at_us, MAX_TIME_US) * _MICROSECOND


def from_datetime(at: datetime) -> int:
    """Microseconds of an aware datetime."""
    return (at - _ZERO) // _MICROSECOND


def rfc3339(at_us: int) -> str:
    """Return a time as RFC 3339: 1500000 -> '1970-01-01T00:00:01.500000Z'. Later than 9999 reads as its end."""
    return (_PLAIN_ZERO + min(at_us, MAX_TIME_US) * _MICROSECOND).isoformat() + "Z"


def from_rfc3339(text: str) -> int:
    """Return the time in microseconds of an RFC 3339 text. Raise ValueError if it is none."""
    return (datetime.fromisoformat(text) - _ZERO) // _MICROSECOND


def seconds(us: int) -> int | float:
    """Return microseconds as seconds, as an int if the number is whole."""
    whole, rest = divmod(us, SECOND_US)
    return us / SECOND_US if rest else whole


def seconds_text(us: int) -> str:
    """Return microseconds as seconds, in the shortest exact decimal: 1500000 -> '1.5'."""
    whole, fraction = divmod(abs(us), SECOND_US)
    sign = "-" if us < 0 else ""
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:06d}".rstrip("0")


def parse_seconds(text: str) -> int:
    """Return the microseconds of a decimal number of seconds, rounded half to even. Raise ValueError if it is none.

    Readers bound what they read more narrowly.
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a number of seconds")
    return int((Decimal(text) * SECOND_US).to_integral_value())


def length_text(us: int) -> str:
    """Return a length of time for people, in a suitable unit: 5400000000 -> '1.5 h'."""
    for unit, size, shortest in (
        ("d", DAY_US, 2 * DAY_US),
        ("h", HOUR_US, HOUR_US),
        ("min", _MINUTE_US, 2 * _MINUTE_US),
    ):
        if us >= shortest:
            return f"{us / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{us / SECOND_US:.1f}".removesuffix(".0") + " s"


def at_least_text(us: int) -> str:
    """Return a length of time rounded down, for one that is promised or offered: no more may be asked for than is told.

    7198300000 -> '1.99 h', where `length_text` has '2 h'. What exceeds the longest lifetime that can be declared reads
    as that one.
    """
    us = min(us, LONGEST_LIFETIME_US)
    for unit, size, shortest, parts in (
        ("d", DAY_US, 2 * DAY_US, 100),
        ("h", HOUR_US, HOUR_US, 100),
        ("min", _MINUTE_US, 2 * _MINUTE_US, 10),
        ("s", SECOND_US, 0, 10),
    ):
        if us >= shortest:
            whole, part = divmod(us * parts // size, parts)
            decimals = f".{part:0{len(str(parts)) - 1}d}".rstrip("0").rstrip(".")
            return f"{whole}{decimals} {unit}"
    return length_text(us)


def age_text(us: int) -> str:
    """Return how old something is: in years from two on, else as a length of time."""
    years = us // (365 * DAY_US)
    return f"{years} years" if years > 1 else length_text(us)


def time_text(at_us: int) -> str:
    """Return a time for people: whole seconds, UTC."""
    return f"{to_datetime(at_us):%Y-%m-%d %H:%M:%S} UTC"
