"""The checker finds each rule that a log alone can break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faults.hand_made import POLICY, HandMade, at, small_cloud


def over_capacity(made: HandMade) -> str:
    made.start("od-2", "on_demand", "small", 5)
    return "capacity"


def on_demand_evicted(made: HandMade) -> str:
    made.evict("od-1", 8)
    made.start("od-2", "on_demand", "small", 5, victims=["od-1"])
    return "on-demand"


def evicted_without_need(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.evict("spot-1", 9)
    made.start("od-2", "on_demand", "small", 6, victims=["spot-1"])
    return "victims"


def older_one_evicted(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.start("spot-2", "spot", "small", 6)
    made.evict("spot-1", 10)
    made.start("od-2", "on_demand", "small", 7, victims=["spot-1"])
    return "victims"


def one_too_many_evicted(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.start("spot-2", "spot", "small", 6)
    made.evict("spot-2", 11)
    made.evict("spot-1", 11)
    made.start("od-2", "on_demand", "small", 7, victims=["spot-2", "spot-1"])
    return "victims"


def victims_not_named(made: HandMade) -> str:
    made.evict("spot-1", 8)
    made.start("od-2", "on_demand", "small", 5)
    return "victims"


def evicted_after_the_cause(made: HandMade) -> str:
    made.evict("spot-1", 6)
    return "wholly"


def evicted_for_another(made: HandMade) -> str:
    made.evict("spot-1", 20)
    made.start("od-2", "on_demand", "small", 5, victims=["spot-1"])
    return "cause"


def drill_with_a_cause(made: HandMade) -> str:
    made.evict("spot-1", 3, "drill")
    made.ask("drill", 5, 200, {"id": "spot-1", "seq": 7, "at": at(7)})
    return "cause"


def rejected_without_need(made: HandMade) -> str:
    made.start("od-2", "on_demand", "small", 5, node=None)
    return "rejection"


def spot_rejected_without_need(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.start("spot-2", "spot", "small", 6, node=None)
    return "rejection"


def not_first_fit(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.node("node-2", 6)
    made.start("od-2", "on_demand", "small", 7, node="node-2")
    return "placement"


def placed_on_a_drained_node(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.event("node_drained", node="node-1")
    made.ask("drain_node", 6, 200, {}, name="node-1")
    made.start("od-2", "on_demand", "small", 7)
    return "placement"


def removed_under_an_instance(made: HandMade) -> str:
    made.event("node_removed", node="node-1")
    made.ask("remove_node", 5, 200, {"victims": []}, name="node-1")
    return "removal"


def gap(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.log[-1]["seq"] = 9
    return "seq"


def time_backwards(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.log[-1]["at"] = at(2)
    return "time"


def half_of_an_eviction(made: HandMade) -> str:
    made.evict("spot-1", 8)
    return "wholly"


def stopped_twice(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.stop("od-1", 6)
    return "log"


def started_twice(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.start("od-1", "on_demand", "small", 6)
    return "decided once"


def eviction_without_grace(made: HandMade) -> str:
    made.log[0]["policy"] = POLICY | {"grace_s": 5}
    made.evict("spot-1", 8)
    made.start("od-2", "on_demand", "small", 5, victims=["spot-1"])
    return "grace"


def confirmed_twice(made: HandMade) -> str:
    made.event("eviction_confirmed", id="spot-1")
    made.ask("confirm", 5, None, id="spot-1")
    return "hand-over"


def outside_of_the_promise(made: HandMade) -> str:
    made.stop("od-1", 5)
    made.log[0]["policy"] = POLICY | {"guarantee": "per_instance"}
    made.start("spot-2", "spot", "small", 6)
    return "promise"


def displaced_within_its_lifetime(made: HandMade) -> str:
    _displace(made, _DISPLACING, lifetime_s=60)
    return "victims"


def displaced_against_the_policy(made: HandMade) -> str:
    _displace(made, POLICY, lifetime_s=0.5)
    return "victims"


def rejected_beside_one_that_overruns(made: HandMade) -> str:
    made.log[0]["policy"] = _DISPLACING
    made.stop("od-1", 5)
    made.start("spot-2", "spot", "small", 6, lifetime_s=0.5)
    made.start("spot-3", "spot", "small", 7, node=None)
    return "rejection"


def held_room_spared(made: HandMade) -> str:
    _evict_beside_held_room(made, "spot-3")
    return "victims"


def _evict_beside_held_room(made: HandMade, victim: str) -> None:
    """Held room is older than a spot instance, and one of them goes for an on-demand start."""
    made.stop("od-1", 5)
    made.stop("spot-1", 6)
    made.start("held", "spot", "small", 7, lifetime_s=60, goes_first=True)
    made.start("spot-3", "spot", "small", 8, lifetime_s=60)
    made.evict(victim, 12)
    made.start("od-2", "on_demand", "small", 9, victims=[victim])


_DISPLACING = POLICY | {"displaces_overrunning": True}


def _displace(made: HandMade, policy: dict[str, Any], lifetime_s: float) -> None:
    """A spot start takes the room of an instance that was started two seconds before."""
    made.log[0]["policy"] = policy
    made.stop("od-1", 5)
    made.start("spot-2", "spot", "small", 6, lifetime_s=lifetime_s)
    made.evict("spot-2", 10, "spot_start")
    made.start("spot-3", "spot", "small", 7, victims=["spot-2"])


@pytest.mark.parametrize(
    "break_it",
    [
        over_capacity,
        on_demand_evicted,
        evicted_without_need,
        older_one_evicted,
        one_too_many_evicted,
        victims_not_named,
        evicted_after_the_cause,
        evicted_for_another,
        drill_with_a_cause,
        rejected_without_need,
        spot_rejected_without_need,
        not_first_fit,
        placed_on_a_drained_node,
        removed_under_an_instance,
        gap,
        time_backwards,
        half_of_an_eviction,
        stopped_twice,
        started_twice,
        eviction_without_grace,
        confirmed_twice,
        outside_of_the_promise,
        displaced_within_its_lifetime,
        displaced_against_the_policy,
        rejected_beside_one_that_overruns,
        held_room_spared,
    ],
)
def test_a_log_that_breaks_a_rule_is_found(break_it: Callable[[HandMade], str]) -> None:
    made = small_cloud()
    rule = break_it(made)
    assert rule in made.rules()


def test_held_room_goes_before_younger_instances() -> None:
    made = small_cloud()
    _evict_beside_held_room(made, "held")
    assert made.rules() == set()


def test_a_spot_start_may_take_the_room_of_an_instance_that_overruns() -> None:
    made = small_cloud()
    _displace(made, _DISPLACING, lifetime_s=0.5)
    assert made.rules() == set()
