"""The hazard of an instance under a bid: how often, per time alive, the price rose above the bid.

It is counted by cell: how near the price is to the bid, and for how long it has stayed within the bid. Rows are made at
even times, each from what had happened before it, so that a run never knows its own future.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.engine.compiled import compiled, inner
from app.venues.rules.history import Dollars, PriceSteps

EVERY_US = 6 * HOUR_US
"""Time between two rows."""
PRIOR_US = 12 * HOUR_US
"""Each cell is completed by so much time at the market's own rate."""
NEAR = (0.25, 0.5, 0.75, 0.9)
SINCE_US = (HOUR_US, 6 * HOUR_US, 24 * HOUR_US, 72 * HOUR_US)
"""Cells begin at these shares of the bid, and at these times since the price was last above the bid or unknown."""
CELLS = (len(NEAR) + 1) * (len(SINCE_US) + 1)


class LearnedHazard(NamedTuple):
    """Row r holds from first_us + r x EVERY_US: evictions per microsecond by cell, of all together, and time alive."""

    first_us: int
    by_cell: NDArray[np.float64]
    overall: NDArray[np.float64]
    alive_us: NDArray[np.float64]


def learned_hazard(steps: PriceSteps, bid: float) -> LearnedHazard:
    """Return the hazards of a pool under a bid: by_cell (rows, CELLS), overall (rows), alive_us (rows)."""
    alive_us, evictions = counted(steps.at_us, steps.price, steps.end_us, bid)
    whole_us = alive_us.sum(axis=1).astype(np.float64)
    overall = evictions.sum(axis=1) / np.maximum(whole_us, 1.0)
    by_cell = (evictions + overall[:, None] * PRIOR_US) / (alive_us + PRIOR_US)
    return LearnedHazard(int(steps.at_us[0]), by_cell, overall, whole_us)


@inner
def cell_of(price: float, bid: float, since_us: int) -> int:
    """Return the cell of a price within the bid and of the time since it was last above."""
    near, since = 0, 0
    while near < len(NEAR) and price >= NEAR[near] * bid:
        near += 1
    while since < len(SINCE_US) and since_us >= SINCE_US[since]:
        since += 1
    return near * (len(SINCE_US) + 1) + since


@compiled
def cells_ahead(price: float, bid: float, since_us: int, moments_us: Ints) -> Ints:
    """Return the cells of moments from now, if the price stays as it is and was within the bid for so long."""
    cells = np.empty(moments_us.shape[0], np.int64)
    for at in range(moments_us.shape[0]):
        cells[at] = cell_of(price, bid, since_us + moments_us[at])
    return cells


@compiled
def counted(at_us: Ints, price: Dollars, end_us: int, bid: float) -> tuple[Ints, Ints]:
    """Return for each row the time alive and the evictions before it, by cell (rows, CELLS)."""
    rows = (end_us - at_us[0]) // EVERY_US + 1
    alive_rows, lost_rows = np.zeros((rows, CELLS), np.int64), np.zeros((rows, CELLS), np.int64)
    alive, lost = np.zeros(CELLS, np.int64), np.zeros(CELLS, np.int64)
    within_us, row, cell = at_us[0], 1, 0
    for step in range(at_us.shape[0]):
        now_us, ends_us = at_us[step], at_us[step + 1] if step + 1 < at_us.shape[0] else end_us
        while now_us < ends_us:
            next_us = min(ends_us, at_us[0] + row * EVERY_US)
            if price[step] <= bid:
                next_us = min(next_us, _cell_ends(within_us, now_us, next_us))
                cell = cell_of(price[step], bid, now_us - within_us)
                alive[cell] += next_us - now_us
            now_us = next_us
            if now_us == at_us[0] + row * EVERY_US:
                alive_rows[row], lost_rows[row] = alive, lost
                row += 1
        if not price[step] <= bid:
            within_us = ends_us
        elif step + 1 < at_us.shape[0] and price[step + 1] > bid:
            lost[cell] += 1
    return alive_rows, lost_rows


@inner
def _cell_ends(within_us: int, now_us: int, next_us: int) -> int:
    for since_us in SINCE_US:
        if within_us + since_us > now_us:
            return min(next_us, within_us + since_us)
    return next_us
