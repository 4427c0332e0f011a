"""The price history of a pool: steps in time, with stretches in which the price is unknown.

A pool is a machine type in a zone of a venue. Its price holds from one change to the next. A step whose price is NaN
is a gap: nothing is known of the price there, and an estimate must not take it for unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import HOUR_US
from app.engine.cluster import Ints

Dollars = NDArray[np.float64]

POOL_SILENCE_US = 25 * HOUR_US
"""A provider repeats every price daily; a pool that is silent for longer was not observed."""
VENUE_SILENCE_US = 6 * HOUR_US
"""All pools of a venue together are silent for longer only if nobody collected their prices."""
MICRO = 1_000_000


class PoolName(NamedTuple):
    """The five words that name a pool."""

    provider: str
    region: str
    zone: str
    instance_type: str
    product: str

    def __str__(self) -> str:
        return f"{self.zone} {self.instance_type} {self.product}"


@dataclass(frozen=True, slots=True)
class PriceSteps:
    """A pool's prices: at_us (n) rising, price (n) in dollars an hour, NaN where unknown. The last holds to end_us."""

    at_us: Ints
    price: Dollars
    end_us: int

    def step_at(self, at_us: int) -> int:
        """Return the index of the step that holds at a time, -1 before the first."""
        return int(self.at_us.searchsorted(at_us, side="right")) - 1

    def price_at(self, at_us: int) -> float:
        """Return the price at a time, NaN where it is unknown."""
        step = self.step_at(at_us)
        return float(self.price[step]) if step >= 0 and at_us <= self.end_us else float("nan")

    def between(self, from_us: int, to_us: int) -> PriceSteps:
        """Return what was known at `to_us` of the time since `from_us`, without a copy."""
        first = max(self.step_at(from_us), 0)
        last = int(self.at_us.searchsorted(to_us, side="left"))
        return PriceSteps(self.at_us[first:last], self.price[first:last], min(to_us, self.end_us))


class SilentStretch(NamedTuple):
    """A time in which no pool of the venue told a price, or of which that is said."""

    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class VenuePrices:
    """All pools of a venue by name, in order of their names, and the stretches in which all were silent."""

    pools: Mapping[PoolName, PriceSteps]
    gaps: Sequence[SilentStretch]

    @property
    def from_us(self) -> int:
        """Time of the first price."""
        return min(int(steps.at_us[0]) for steps in self.pools.values())

    @property
    def to_us(self) -> int:
        """Time of the last price."""
        return max(steps.end_us for steps in self.pools.values())


def venue_of(rows: Mapping[PoolName, tuple[Ints, Ints]], told: Sequence[SilentStretch] = ()) -> VenuePrices:
    """Return the histories of rows of (times, prices in millionths of a dollar an hour), in any order.

    1. The highest of equal times counts. 2. Silences are gaps, and so are those that were `told`. 3. Equal neighbours
    are one step. The result does not depend on the order of the rows.
    """
    ordered = {name: _ordered(*rows[name]) for name in sorted(rows)}
    if not ordered:
        return VenuePrices({}, ())
    every = np.sort(np.concatenate([_edges(at_us) for at_us, _ in ordered.values()]))
    silent = np.flatnonzero(np.diff(every) > VENUE_SILENCE_US)
    end_us = int(every[-1])
    found = [SilentStretch(int(every[at]), int(every[at + 1])) for at in silent]
    gaps = sorted({*found, *(gap for gap in told if gap.from_us < end_us)})
    return VenuePrices({name: _steps(at_us, micro, gaps, end_us) for name, (at_us, micro) in ordered.items()}, gaps)


def steps_of(at_us: Ints, micro: Ints, told: Sequence[SilentStretch], end_us: int) -> PriceSteps:
    """Return the history of one pool alone: without the others, only what was `told` and its own silences are gaps."""
    ordered = _ordered(at_us, micro)
    return _steps(*ordered, sorted(gap for gap in told if gap.from_us < end_us), end_us)


def _edges(at_us: Ints) -> Ints:
    """Return the first and the last of a pool's rising times in each half of a venue's silence.

    A longer stretch without any pool's price lies between two of these, and holds none of the others. So millions of
    times need not be put in order.
    """
    halves = at_us // (VENUE_SILENCE_US // 2)
    is_first = np.append([True], halves[1:] != halves[:-1])
    found: Ints = at_us[is_first | np.append(is_first[1:], [True])]
    return found


def _ordered(at_us: Ints, micro: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort((micro, at_us))
    at_us, micro = at_us[order], micro[order]
    last = np.append(at_us[1:] != at_us[:-1], [True])
    return at_us[last], micro[last]


def _steps(at_us: Ints, micro: Ints, gaps: Sequence[SilentStretch], end_us: int) -> PriceSteps:
    """Return the steps of a pool: it is unknown from a silence's begin to its own next price."""
    price = micro / MICRO
    quiet = np.diff(np.append(at_us, end_us)) > POOL_SILENCE_US
    price[quiet] = np.nan
    inside = [gap for gap in gaps if gap.from_us > at_us[0]]
    starts = np.array([gap.from_us for gap in inside], np.int64)
    places = at_us.searchsorted(starts, side="right")
    is_own = at_us[places - 1] == starts
    price[places[is_own] - 1] = np.nan
    at_us = np.insert(at_us, places[~is_own], starts[~is_own])
    price = np.insert(price, places[~is_own], np.nan)
    changed = np.append([True], (price[1:] != price[:-1]) & ~(np.isnan(price[1:]) & np.isnan(price[:-1])))
    return PriceSteps(at_us[changed], price[changed], end_us)
