"""Sentences on the choice of victims: one that overran goes before others for that, and not for its age."""

from __future__ import annotations

from app.domain.events import InstanceStarted
from app.domain.times import HOUR_US
from app.domain.values import EvictionPolicy, EvictionReason, Market, Resources
from app.explaining.rules.evictionwords import eviction_in_words
from app.explaining.rules.explanations import EvictionExplained, PromiseStatus, Victim

CORE = Resources(1)


def started(name: str, market: Market) -> InstanceStarted:
    lifetime_us = HOUR_US if market is Market.SPOT else None
    return InstanceStarted(at_us=0, instance_id=name, market=market, flavor="c1", node="n", lifetime_us=lifetime_us)


def victim(name: str, age_us: int, *, goes_first: bool = False) -> Victim:
    return Victim(name, "c1", CORE, "n", 0, age_us, HOUR_US, None, PromiseStatus.KEPT, goes_first=goes_first)


def told(*victims: Victim, policy: EvictionPolicy = EvictionPolicy.YJF) -> str:
    """Return the sentences on the eviction of the first of the victims."""
    start = started("peak", Market.ON_DEMAND)
    why = EvictionExplained(
        5 * HOUR_US, EvictionReason.ON_DEMAND_START, 7, start, None, CORE, policy, victims, len(victims), 1, None
    )
    return " ".join(eviction_in_words(why, started(victims[0].instance_id, Market.SPOT)))


def test_the_only_victim_went_for_its_overrun_and_not_for_its_youth() -> None:
    overran = told(victim("old", 5 * HOUR_US))
    assert overran.endswith(
        "It alone had to go: it had overrun its declared lifetime, and such instances go before all others."
    )
    assert "started last" not in overran
    assert told(victim("young", 1)).endswith("of all that would have made room, it was the one started last.")


def test_the_order_of_several_victims_is_told_as_it_was() -> None:
    mixed = told(victim("old", 5 * HOUR_US), victim("young", 1))
    assert "had to go, those that had overrun their lifetimes first, then the youngest: had any" in mixed
    assert "youngest first" not in mixed
    assert "had to go, youngest first: had any" in told(victim("young", 1), victim("younger", 2))
    held = told(victim("held", 2, goes_first=True), victim("old", 5 * HOUR_US), victim("young", 1))
    assert "held room first, then those that had overrun their lifetimes, then the youngest" in held


def test_the_walk_over_the_whole_cloud_tells_of_the_overrun_beside_it() -> None:
    walked = told(victim("old", 5 * HOUR_US), victim("young", 1), policy=EvictionPolicy.YJF_GLOBAL)
    assert "of the whole cloud, those that had overrun their lifetimes first, then the youngest, until" in walked
    assert walked.endswith("It had overrun its declared lifetime, and such instances go before all others.")
