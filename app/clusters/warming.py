"""Compiles what advice on machines of venues calls, before a request needs it."""

from __future__ import annotations

import numpy as np

from app.clusters.rules.bidding import hazards_under_bid
from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.history import PriceSteps


def warm_up() -> None:
    """Compile the count of a pool's hazards now, with a price that rises above the bid and falls again."""
    prices = np.array([0.1, 0.3, 0.1])
    steps = PriceSteps(np.arange(len(prices), dtype=np.int64) * HOUR_US, prices, DAY_US)
    hazards_under_bid(steps, 0.2, np.array([float(HOUR_US), float(DAY_US)]))
