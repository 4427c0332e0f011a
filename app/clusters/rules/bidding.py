"""The survival of a machine that was bought at a venue, as its hazards from now on.

Where a price ends machines the hazard is that of the policy `hazard` (rules/hazards.py): counted in the pool's own
past, by how near the price is to the bid and for how long it has been within it. Where machines end for lack of
capacity it is the fall of the survival that was observed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

import numpy as np
from numpy.typing import NDArray

from app.clusters.rules.advice import Hazards, hazards_of
from app.clusters.rules.hazards import cells_ahead, learned_hazard
from app.venues.rules.history import PriceSteps


class PriceAbove(Exception):
    """The price is above the bid, or unknown (NaN)."""

    def __init__(self, price: float) -> None:
        super().__init__(price)
        self.price = price


def hazards_under_bid(steps: PriceSteps, bid: float, moments_us: NDArray[np.float64]) -> Hazards:
    """Return the hazards up to moments from the end of the steps (K, rising), if the price stays as near to the bid.

    None is below 1 / (time within the bid that was observed + last moment). Raise PriceAbove if the machine is lost.
    """
    price = float(steps.price[-1])
    if isnan(price) or price > bid:
        raise PriceAbove(price)
    learned = learned_hazard(steps, bid)
    begins_us = np.concatenate(([0.0], moments_us[:-1])).astype(np.int64)
    cells = cells_ahead(price, bid, steps.end_us - _within_since(steps, bid), begins_us)
    floor = 1.0 / (float(learned.alive_us[-1]) + float(moments_us[-1]))
    rates = np.maximum(learned.by_cell[-1, cells], floor)
    return Hazards(moments_us, rates, np.exp(-np.cumsum(rates * np.diff(moments_us, prepend=0.0))))


def hazards_observed(share_living: Callable[[int], float], age_us: int, moments_us: NDArray[np.float64]) -> Hazards:
    """Return the hazards of a machine of an age, from the share of machines that live for a time.

    None is below 1 / (age + last moment).
    """
    now = share_living(age_us) if age_us else 1.0
    ahead = np.array([share_living(age_us + int(moment_us)) for moment_us in moments_us])
    lost = 1.0 - np.minimum(ahead / now, 1.0) if now > 0.0 else np.ones(len(moments_us))
    return hazards_of(moments_us, lost, 1.0 / (age_us + float(moments_us[-1])))


def _within_since(steps: PriceSteps, bid: float) -> int:
    """Return since when the price has been within the bid."""
    outside = np.flatnonzero(~(steps.price <= bid))
    return int(steps.at_us[outside[-1] + 1] if len(outside) else steps.at_us[0])
