"""Strata: the bands of declared lifetimes within which a promise is judged."""

from __future__ import annotations

from bisect import bisect_right

from app.domain.times import DAY_US, HOUR_US

BEGINS_US = (0, HOUR_US, 8 * HOUR_US, 2 * DAY_US, 7 * DAY_US)
"""The shortest lifetime of each stratum."""
STRATA = ("<1h", "1h-8h", "8h-2d", "2d-7d", ">=7d")


def stratum_of(lifetime_us: int) -> str:
    """Return the name of the stratum that a declared lifetime lies in."""
    return STRATA[bisect_right(BEGINS_US, lifetime_us) - 1]
