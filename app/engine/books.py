"""The risk that the running spot instances of one promise still bear, by stratum of declared lifetime.

The risk recorded at a start is borne over the declared lifetime in equal parts, so an instance bears the share of it
that is left of its lifetime. Each instance counts 1, or the core-hours that it declares: its weight. Sums are of whole
parts, so the order of the rows does not matter: two states of one log decide alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import HOUR_US
from app.engine.cluster import Bools, Ints
from app.engine.compiled import compiled

PARTS = 1 << 40
"""A risk of 1 has so many parts. As many instances as may run bear less than a whole number holds."""
CORE_HOUR_PARTS = 1 << 20
"""A core-hour has so many parts."""
MOST_CORE_HOURS = float(1 << 25)
"""A heavier instance counts as so many: as many instances as may run have fewer parts than a whole number holds."""
RISKY = 0.5
"""From more than this share of its promise on, a running instance counts among the risky ones."""


class Bearers(NamedTuple):
    """Columns beside the rows (S) of a cluster.

    promises: of the running instances that stand in a book, 0 for all others; rates: the risk recorded at the start,
    for each microsecond of the declared lifetime; strata: the position of the lifetime's stratum; core_hours: those
    that the instance declares.
    """

    promises: NDArray[np.float64]
    rates: NDArray[np.float64]
    strata: NDArray[np.int8]
    core_hours: NDArray[np.float64]


def core_hours_of(cores: int, lifetime_us: int | None) -> float:
    """Return the core-hours of so many cores for a declared lifetime."""
    return min(cores * (lifetime_us or 0) / HOUR_US, MOST_CORE_HOURS)


@compiled
def borne(
    bearers: Bearers,
    deadlines_us: Ints,
    are_spot: Bools,
    strata_count: int,
    asked: NDArray[np.float64],
    now_us: int,
    by_core_hours: bool,  # noqa: FBT001 - compiled functions take no keywords
) -> tuple[Ints, Ints, Ints]:
    """Return what is borne, how many are risky, and their weight, by book asked for (A) and stratum (K).

    The first and the last are in parts: CORE_HOUR_PARTS of a core-hour if `by_core_hours`, else PARTS of an instance.
    deadlines_us, are_spot (S): as in the cluster; asked (A): the promises of the books that are read. An instance is
    borne by the book of its own promise. It is risky for a book if it bears more than RISKY times its own promise and
    as much of the book's: else starts that risk next to nothing, each a good part of a tiny promise, would count like
    those that risk much. Overrunning instances bear nothing. One pass over many rows decides the cost, and most of it
    branches that cannot be foreseen, so the sums have none.
    """
    parts = np.zeros((asked.shape[0], strata_count), np.int64)
    risky, risky_parts = np.zeros_like(parts), np.zeros_like(parts)
    for row in range(deadlines_us.shape[0]):
        if not are_spot[row]:  # of most rows nothing more is read
            continue
        left_us = deadlines_us[row] - now_us
        if left_us <= 0:
            continue
        promise, stratum, risk = bearers.promises[row], bearers.strata[row], bearers.rates[row] * left_us
        weight = bearers.core_hours[row] * CORE_HOUR_PARTS if by_core_hours else float(PARTS)
        own, whole = int(risk * weight), int(weight)
        for book in range(asked.shape[0]):
            is_risky = int(risk > RISKY * max(promise, asked[book]))
            parts[book, stratum] += own * int(promise == asked[book])
            risky[book, stratum] += is_risky
            risky_parts[book, stratum] += is_risky * whole
    return parts, risky, risky_parts
