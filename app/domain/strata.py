"""Strata: the bands of declared lifetimes within which a promise is judged.

Boundaries are rising lifetimes above 0. Each begins a stratum, and the first stratum begins at 0; no boundary makes one
stratum of all lifetimes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from app.domain.times import DAY_US, HOUR_US, SECOND_US

BOUNDARIES_US = (HOUR_US, 8 * HOUR_US, 2 * DAY_US, 7 * DAY_US)
"""The boundaries by which reports judge, and budgets unless a policy says otherwise."""
MOST_BOUNDARIES = 15
"""The number of boundaries that a policy may have. The state keeps a book for each stratum of each promise."""
_UNITS = (("d", DAY_US), ("h", HOUR_US), ("m", 60 * SECOND_US), ("s", SECOND_US))


def stratum_index(lifetime_us: int, boundaries_us: Sequence[int]) -> int:
    """Return the position of the stratum that a declared lifetime lies in."""
    return bisect_right(boundaries_us, lifetime_us)


def stratum_span(index: int, boundaries_us: Sequence[int]) -> tuple[int, int | None]:
    """Return the shortest lifetime of a stratum, and the shortest one beyond it; None: it has no end."""
    edges = [0, *boundaries_us, None]
    return edges[index] or 0, edges[index + 1]


def stratum_names(boundaries_us: Sequence[int]) -> tuple[str, ...]:
    """Return the names of all strata, the shortest lifetimes first: `<1h`, `1h-8h`, `>=8h`; `all` if it is one."""
    return tuple(stratum_name(low, high) for low, high in pairwise((0, *boundaries_us, None)))


def stratum_name(from_us: int | None, below_us: int | None) -> str:
    """Return the name of the stratum from a lifetime on, of shorter ones than another; None as that: of any."""
    if below_us is None:
        return f">={_short(from_us)}" if from_us else "all"
    return f"{_short(from_us)}-{_short(below_us)}" if from_us else f"<{_short(below_us)}"


def _short(length_us: int) -> str:
    """Return a length of time in the largest unit that divides it: 1h, 8h, 2d."""
    for name, unit_us in _UNITS:
        if length_us % unit_us == 0:
            return f"{length_us // unit_us}{name}"
    return f"{length_us / SECOND_US:g}s"


BOUNDARIES = ",".join(map(_short, BOUNDARIES_US))
"""Those boundaries as text: 1h,8h,2d,7d."""
STRATA = stratum_names(BOUNDARIES_US)
BEGINS_US = (0, *BOUNDARIES_US)
"""The shortest lifetime of each stratum."""


def stratum_of(lifetime_us: int) -> str:
    """Return the name of the stratum that a declared lifetime lies in."""
    return STRATA[stratum_index(lifetime_us, BOUNDARIES_US)]
