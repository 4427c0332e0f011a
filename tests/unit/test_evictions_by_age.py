"""The counts of evictions by age: where they fall, and how long instances stood in each class."""

from __future__ import annotations

import pytest

from app.domain.events import Event, InstanceEvicted, InstanceStarted, InstanceStopped, Recorded
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import EvictionReason, Market
from benchmarks.aging import WORDS, counted


def test_an_eviction_counts_at_its_age_and_each_stay_in_all_classes_before_it() -> None:
    minute_us = 60 * SECOND_US

    def started(name: str, market: Market = Market.SPOT, at_us: int = 0) -> Event:
        lifetime_us = DAY_US if market is Market.SPOT else None
        return InstanceStarted(
            at_us=at_us, instance_id=name, market=market, flavor="c1", node="n", lifetime_us=lifetime_us
        )

    def evicted(name: str, at_us: int) -> Event:
        return InstanceEvicted(at_us=at_us, instance_id=name, reason=EvictionReason.ON_DEMAND_START, cause_seq=1)

    log = [
        *map(started, ("young", "old", "stops", "stays")),
        started("paid", Market.ON_DEMAND),
        evicted("young", 9 * minute_us),
        InstanceStopped(at_us=10 * minute_us, instance_id="stops"),
        InstanceStopped(at_us=20 * minute_us, instance_id="paid"),
        evicted("old", 7 * HOUR_US),
    ]
    found, days = counted(Recorded(seq, event) for seq, event in enumerate(log, start=1))
    assert dict(zip(WORDS, found.tolist(), strict=True)) == {
        "0 to 10 min": 1,
        "10 min to 1 h": 0,
        "1 to 6 h": 0,
        "above 6 h": 1,
    }
    minutes = [9 + 3 * 10, 2 * 50, 2 * 5 * 60, 2 * 60]
    assert days * DAY_US / minute_us == pytest.approx(minutes)
