"""Weeks from Monday to Sunday in UTC, by number."""

from __future__ import annotations

from app.domain.times import DAY_US

_DAYS = 7
_FIRST_MONDAY = -3
"""The day of the Monday before the time 0, a Thursday."""


def week_of(at_us: int) -> int:
    """Return the number of the week that a time lies in."""
    return (at_us // DAY_US - _FIRST_MONDAY) // _DAYS


def begin_of_week(week: int) -> int:
    """Return the time at which the week of this number begins."""
    return (_DAYS * week + _FIRST_MONDAY) * DAY_US
