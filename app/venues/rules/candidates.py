"""Bids worth considering at a price: steps above it, and multiples of the on-demand price."""

from __future__ import annotations

import numpy as np

from app.venues.rules.history import Dollars

_ABOVE = np.array([
    1.0, 1.01, 1.02, 1.04, 1.06, 1.08, 1.1, 1.13, 1.16, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 2.0, 2.3, 2.6, 3.0, 3.5,
    4.0, 5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0,
])  # fmt: skip
_OF_ON_DEMAND = np.array([0.5, 1.0, 2.0, 4.0, 10.0])


def candidate_bids(price: float, on_demand: float) -> Dollars:
    """Return rising bids from the price up to ten times the on-demand price, the most that Amazon ever took."""
    bids: Dollars = np.unique(np.concatenate((_ABOVE * price, _OF_ON_DEMAND * on_demand)))
    highest = max(10.0 * on_demand, price)
    return np.asarray(bids[(bids >= price) & (bids <= highest)])


def least_reaching(bids: Dollars, chances: Dollars, target: float) -> int:
    """Return the index of the least bid whose chance reaches the target, else of the best; a chance never falls."""
    risen = np.maximum.accumulate(chances)
    at = int(risen.searchsorted(target))
    return at if at < len(bids) else int(risen.argmax())
