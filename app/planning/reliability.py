"""Promised against happened: of the jobs that began in a venue, how many first machines lived, and what was paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from app.judging.intervals import CONFIDENCE, exact_interval
from app.planning.store.plans import StoredOutcome

__all__ = ["CONFIDENCE", "PoolRecord", "records_of"]


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


def records_of(outcomes: Sequence[StoredOutcome]) -> tuple[PoolRecord, list[PoolRecord]]:
    """Return the record of all outcomes, and those of the pools, the ones with most outcomes first."""
    by_pool = defaultdict[tuple[str | None, str | None], list[StoredOutcome]](list)
    for one in outcomes:
        by_pool[one.zone, one.instance_type].append(one)
    pools = [_record(*words, found) for words, found in by_pool.items()]
    return _record(None, None, outcomes), sorted(pools, key=lambda one: (-one.count, one.zone, one.instance_type))


def _record(zone: str | None, kind: str | None, outcomes: Sequence[StoredOutcome]) -> PoolRecord:
    count = len(outcomes)
    lived = sum(one.outcome["lost"] == 0 for one in outcomes)
    low, high = exact_interval(lived, count)
    return PoolRecord(
        zone,
        kind,
        count,
        sum(one.promised for one in outcomes) / count if count else None,
        lived / count if count else None,
        low,
        high,
        sum(one.said_cost for one in outcomes),
        sum(one.outcome["cost"] for one in outcomes),
        sum(one.outcome["on_demand"] for one in outcomes),
    )
