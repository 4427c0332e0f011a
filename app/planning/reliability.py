"""Promised against happened: of the jobs that began in a venue, how many first machines lived, and what was paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.judging.intervals import CONFIDENCE, exact_interval
from app.planning.store.plans import PoolTally

__all__ = ["CONFIDENCE", "PoolRecord", "PoolTally", "records_of"]


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool's outcomes; without words those of all pools.

    promised: the mean of what was said; lived: the share whose first machine lived, with its interval. said_cost and
    paid_cost are sums.
    """

    zone: str | None
    instance_type: str | None
    count: int
    promised: float | None
    lived: float | None
    lived_low: float
    lived_high: float
    said_cost: float
    paid_cost: float
    on_demand: int


def records_of(pools: Sequence[PoolTally]) -> tuple[PoolRecord, list[PoolRecord]]:
    """Return the record of all outcomes, and those of the pools, the ones with most outcomes first."""
    whole = PoolTally(
        None,
        None,
        sum(one.count for one in pools),
        sum(one.promised for one in pools),
        sum(one.lived for one in pools),
        sum(one.said_cost for one in pools),
        sum(one.paid_cost for one in pools),
        sum(one.on_demand for one in pools),
    )
    found = [_record(one) for one in pools]
    return _record(whole), sorted(found, key=lambda one: (-one.count, one.zone, one.instance_type))


def _record(tally: PoolTally) -> PoolRecord:
    count, (low, high) = tally.count, exact_interval(tally.lived, tally.count)
    return PoolRecord(
        tally.zone,
        tally.instance_type,
        count,
        tally.promised / count if count else None,
        tally.lived / count if count else None,
        low,
        high,
        tally.said_cost,
        tally.paid_cost,
        tally.on_demand,
    )
