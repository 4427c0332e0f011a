"""Machines that were leased in a backtest: what they cost by the hour, and when each is revoked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.engine.compiled import compiled
from app.venues.rules.choose import ON_DEMAND
from app.venues.rules.history import Dollars, PriceSteps

NEVER = 2**62


@dataclass(slots=True)
class Lease:
    """A leased machine: its pool and bid, when it is revoked, until when it works and until when it is paid."""

    pool: int
    bid: float
    revoked_us: int
    ready_us: int
    paid_us: int

    def is_idle(self, now_us: int) -> bool:
        """Tell if it can be used again: it works no more, its hour is paid, and it has not been revoked."""
        return self.ready_us <= now_us < min(self.paid_us, self.revoked_us)


def new_lease(steps: PriceSteps, pool: int, bid: float, now_us: int) -> Lease:
    """Return a machine leased now, of which nothing is paid yet."""
    revoked_us = NEVER if bid == ON_DEMAND else int(first_above(steps.at_us, steps.price, now_us, bid))
    return Lease(pool, bid, revoked_us, now_us, now_us)


@compiled
def first_above(at_us: Ints, price: Dollars, from_us: int, bid: float) -> int:
    """Return when the price first rises above a bid from a time on; gaps reveal nothing."""
    first = int(np.searchsorted(at_us, from_us, side="right")) - 1
    for step in range(max(first, 0), at_us.shape[0]):
        if price[step] > bid:
            return max(int(at_us[step]), from_us)
    return NEVER


def use_until(lease: Lease, steps: PriceSteps, on_demand: float, until_us: int) -> float:
    """Run a machine until a time or its revocation, and return what is billed.

    A machine is held to the end of each hour that it has begun, whether or not it works until then. So an hour within
    which the provider ends it is free, also if its work was done before.
    """
    end_us, billed = min(until_us, lease.revoked_us), 0.0
    while lease.paid_us < end_us:
        if lease.revoked_us >= lease.paid_us + HOUR_US:
            billed += on_demand if lease.bid == ON_DEMAND else last_known(steps, lease.paid_us)
        lease.paid_us += HOUR_US
    lease.ready_us = end_us
    return billed


def last_known(steps: PriceSteps, at_us: int) -> float:
    """Return the price at a time; in a gap the last one before it."""
    step = max(steps.step_at(at_us), 0)
    while step and np.isnan(steps.price[step]):
        step -= 1
    return float(steps.price[step])
