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
from app.engine.compiled import compiled

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
    names = sorted(rows)
    if not names:
        return VenuePrices({}, ())
    ordered = [_ordered(*rows[name]) for name in names]
    at_us, micro = (np.concatenate(column) for column in zip(*ordered, strict=True))
    firsts = np.cumsum([0, *(len(times) for times, _ in ordered)], dtype=np.int64)
    every = np.sort(_edges(at_us, firsts, VENUE_SILENCE_US // 2))
    silent = np.flatnonzero(np.diff(every) > VENUE_SILENCE_US)
    end_us = int(every[-1])
    found = [SilentStretch(int(every[at]), int(every[at + 1])) for at in silent]
    gaps = sorted({*found, *(gap for gap in told if gap.from_us < end_us)})
    begins_us = np.array([gap.from_us for gap in gaps], np.int64)
    times_us, prices, firsts = _steps(at_us, micro, firsts, begins_us, end_us)
    cuts = zip(names, firsts[:-1].tolist(), firsts[1:].tolist(), strict=True)
    return VenuePrices({name: PriceSteps(times_us[a:b], prices[a:b], end_us) for name, a, b in cuts}, gaps)


def steps_of(at_us: Ints, micro: Ints, told: Sequence[SilentStretch], end_us: int) -> PriceSteps:
    """Return the history of one pool alone: without the others, only what was `told` and its own silences are gaps."""
    at_us, micro = _ordered(at_us, micro)
    begins_us = np.array(sorted(gap.from_us for gap in told if gap.from_us < end_us), np.int64)
    times_us, prices, _ = _steps(at_us, micro, np.array([0, len(at_us)], np.int64), begins_us, end_us)
    return PriceSteps(times_us, prices, end_us)


def _ordered(at_us: Ints, micro: Ints) -> tuple[Ints, Ints]:
    if (at_us[1:] > at_us[:-1]).all():
        return at_us, micro
    order = np.lexsort((micro, at_us))
    at_us, micro = at_us[order], micro[order]
    last = np.append(at_us[1:] != at_us[:-1], [True])
    return at_us[last], micro[last]


@compiled
def _edges(at_us: Ints, firsts: Ints, half_us: int) -> Ints:
    """Compute the first and the last of each pool's rising times in each half of a venue's silence.

    Pool i has the rows firsts[i] to firsts[i + 1]. A longer stretch without any pool's price lies between two of these,
    and holds none of the others. So millions of times need not be put in order.
    """
    found, count = np.empty(at_us.shape[0], np.int64), 0
    for pool in range(firsts.shape[0] - 1):
        first, last = firsts[pool], firsts[pool + 1] - 1
        for row in range(first, last + 1):
            half = at_us[row] // half_us
            if row in (first, last) or at_us[row - 1] // half_us < half or at_us[row + 1] // half_us > half:
                found[count] = at_us[row]
                count += 1
    return found[:count]


@compiled
def _steps(at_us: Ints, micro: Ints, firsts: Ints, gaps_us: Ints, end_us: int) -> tuple[Ints, Dollars, Ints]:
    """Compute the steps of pools with rising times: times, prices, and at which of them each pool begins (pools + 1).

    A pool is unknown from a silence's begin, its own or one of `gaps_us` (rising), to its own next price. All pools are
    gone through in one call: a thread that calls and comes back for each would let no other go on between them.
    """
    most = 2 * at_us.shape[0]
    times_us, prices, begins = np.empty(most, np.int64), np.empty(most), np.zeros_like(firsts)
    count = 0
    for pool in range(firsts.shape[0] - 1):
        first, last = firsts[pool], firsts[pool + 1] - 1
        gap = np.searchsorted(gaps_us, at_us[first], side="right")
        for row in range(first, last + 1):
            next_us = at_us[row + 1] if row < last else end_us
            price = micro[row] / MICRO
            if next_us - at_us[row] > POOL_SILENCE_US:
                price = np.nan
            while gap < gaps_us.shape[0] and gaps_us[gap] == at_us[row]:
                price, gap = np.nan, gap + 1
            is_known, was_known = not np.isnan(price), count > begins[pool] and not np.isnan(prices[count - 1])
            if count == begins[pool] or is_known != was_known or (is_known and price != prices[count - 1]):
                times_us[count], prices[count] = at_us[row], price
                count += 1
            if gap < gaps_us.shape[0] and (row == last or gaps_us[gap] < next_us):
                if not np.isnan(prices[count - 1]):
                    times_us[count], prices[count] = gaps_us[gap], np.nan
                    count += 1
                while gap < gaps_us.shape[0] and (row == last or gaps_us[gap] < next_us):
                    gap += 1
        begins[pool + 1] = count
    return times_us[:count], prices[:count], begins
