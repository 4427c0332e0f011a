"""The costs of a cluster: the times of its instances, from the logs of the clouds, at the prices of its pools.

All sums are of whole microseconds and whole millionths, so every reader gets the same number to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.clusters.rules.bids import Bill, rounded

MICRO = 1_000_000
OTHER_POOL = "other"
"""Stands for all pools that the cluster had once and that its present description does not name."""


class PoolPrice(NamedTuple):
    """Prices of an hour in millionths. None: it is not told what the pool would cost on demand."""

    pool: str
    micro: int
    on_demand_micro: int | None


class PoolCost(NamedTuple):
    """The time and the cost of a pool's instances. Of pools that are not described any more, the cost is not known."""

    pool: str
    instance_count: int
    used_us: int
    cost_micro: int
    on_demand_micro: int | None


class ClusterCost(NamedTuple):
    """The costs by pool; the sums of those rows, so what a reader adds up is what is told."""

    pools: Sequence[PoolCost]
    used_us: int
    cost_micro: int
    on_demand_micro: int | None


def price_micro(price: float) -> int:
    """Return a price as whole millionths."""
    return round(price * MICRO)


def cost_of(
    prices: Sequence[PoolPrice], used: Mapping[str, tuple[int, int]], bills: Mapping[str, Bill] | None = None
) -> ClusterCost:
    """Return the cost of instances: by pool, how many there were and their time together in microseconds.

    bills: of pools whose provider bills them. What all would have cost on demand is known only if it is for each pool
    that was used.
    """
    billed = bills or {}
    rows = [
        PoolCost(price.pool, *billed[price.pool])
        if price.pool in billed
        else _cost_of_pool(price, *used.get(price.pool, (0, 0)))
        for price in prices
    ]
    known = {price.pool for price in prices}
    others = [one for pool, one in used.items() if pool not in known]
    if others:
        count, used_us = map(sum, zip(*others, strict=True))
        rows.append(PoolCost(OTHER_POOL, count, used_us, 0, None))
    on_demand = [row.on_demand_micro for row in rows if row.used_us]
    whole = None if None in on_demand else sum(one for one in on_demand if one is not None)
    return ClusterCost(rows, sum(row.used_us for row in rows), sum(row.cost_micro for row in rows), whole)


def _cost_of_pool(price: PoolPrice, count: int, used_us: int) -> PoolCost:
    on_demand = None if price.on_demand_micro is None else rounded(used_us * price.on_demand_micro)
    return PoolCost(price.pool, count, used_us, rounded(used_us * price.micro), on_demand)
