"""Hand-overs in a cloud's state: exact at any number of them, and every change as dear as one."""

from __future__ import annotations

import tracemalloc
from random import Random
from time import process_time

import pytest
from oracles.handovers import naive_ready_us
from oracles.histories import RandomCloud

from app.admission import decide, handovers
from app.admission.batch import EVENTS_AT_ONCE, Batch, decide_batch, decide_more
from app.admission.decide import decide_confirmation, decide_node_removal, decide_overdue, decide_start
from app.admission.outcomes import Started
from app.domain.errors import TooManyEvictions
from app.domain.events import (
    CloudCreated,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    NodeAdded,
    Recorded,
)
from app.domain.requests import StartRequest, StopRequest
from app.domain.values import EvictionReason, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.engine.cloud.told import OVERDUE_MAX


@pytest.mark.parametrize("seed", [0, *range(2, 41)])
def test_the_time_when_room_is_free_is_the_oracles(seed: int) -> None:
    world = RandomCloud(Random(seed), Policy(guarantee=Guarantee.NONE, grace_us=30))
    world.open()
    asked = 0
    for _ in range(120):
        world.step()
        cloud, now_us = world.cloud, world.now_us
        for flavor in cloud.flavors:
            node, victims = cloud.place_on_demand(flavor, now_us)
            if node is None:
                continue
            asked += 1
            places = ([] if victims else [*cloud.fitting_nodes(flavor, 2)]) or [node]
            question = places, flavor, victims, now_us + 30, now_us
            assert cloud.ready_us(*question) == naive_ready_us(cloud, *question)
    assert asked


def graced(count: int, deadline_us: int = 1000) -> Cloud:
    """Return a cloud in which that many instances of one core were evicted from one node, unconfirmed."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, grace_us=deadline_us)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(2 * count)))
    evict(cloud, count, deadline_us)
    return cloud


def evict(cloud: Cloud, count: int, deadline_us: int) -> None:
    for number in range(count):
        name = f"i{cloud.seq}-{number}"
        cloud.apply(
            InstanceStarted(at_us=0, instance_id=name, market=Market.SPOT, flavor="small", node="n", lifetime_us=9)
        )
        why = EvictionReason.NODE_REMOVED
        cloud.apply(
            EvictionScheduled(at_us=0, instance_id=name, reason=why, cause_seq=9, deadline_us=deadline_us + number)
        )
        cloud.apply(InstanceEvicted(at_us=0, instance_id=name, reason=why, cause_seq=9))


def test_what_can_be_undone_needs_no_copy_of_all_hand_overs() -> None:
    cloud = graced(3000)
    cloud.commit()
    tracemalloc.start()
    evict(cloud, 1000, 5000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_many_hand_overs_make_starts_and_reports_no_dearer() -> None:
    cloud = graced(5000)
    began = process_time()  # not that of others beside it
    for number in range(200):
        for event in decide_start(cloud, StartRequest(f"s{number}", Market.SPOT, "small", 100), 1, None):
            cloud.apply(event)
    for one in cloud.known_handovers()[:2000]:
        cloud.apply(EvictionOverdue(at_us=9000, instance_id=one.instance_id, deadline_us=one.deadline_us))
    for one in cloud.known_handovers()[-1000:]:
        cloud.apply(EvictionConfirmed(at_us=9000, instance_id=one.instance_id))
    assert process_time() - began < 2


def test_the_overdue_beyond_the_limit_are_forgotten_oldest_first_and_come_back_on_rollback() -> None:
    cloud = graced(OVERDUE_MAX + 10)
    cloud.commit()
    before = cloud.digest()
    names = [one.instance_id for one in cloud.known_handovers()]
    for one in cloud.known_handovers():
        cloud.apply(EvictionOverdue(at_us=9000, instance_id=one.instance_id, deadline_us=one.deadline_us))
    assert [one.instance_id for one in cloud.known_handovers()] == names[10:]
    assert Cloud.of_facts(cloud.facts()).digest() == cloud.digest()
    cloud.rollback()
    assert cloud.digest() == before
    assert Cloud.of_facts(cloud.facts()).ready_us(["n"], "small", (), 0, 0) == cloud.ready_us(["n"], "small", (), 0, 0)


def test_overdue_evictions_are_reported_some_at_a_time_the_earliest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MOST_NOTICES", 10)
    cloud, told = graced(99), []
    waiting = [one.instance_id for one in cloud.known_handovers()]
    while due := decide_overdue(cloud, 3000):
        assert len(due) <= 10
        told += [cloud.apply(event).event.instance_id for event in due]
    assert len(told) > 20
    assert told == waiting


def test_a_step_with_many_events_is_applied_in_slices_and_like_at_once() -> None:
    cloud, whole = (filled(700) for _ in range(2))
    big = StartRequest("big", Market.ON_DEMAND, "big")
    batch, slices = Batch({}), 0
    while not batch.outcomes:
        assert decide_more(batch, cloud, [big], 5, None)
        slices += 1
    assert slices == -(-1401 // EVENTS_AT_ONCE)
    assert [item.event for item in batch.recorded] == [*decide_start(whole, big, 5, None)]
    assert batch.outcomes == [Started(batch.recorded[-1].event, batch.recorded[-1].seq, repeated=False)]  # type: ignore[arg-type]
    assert len(batch.ended) == 700
    cloud.rollback()
    assert cloud.digest() == whole.digest()


def filled(count: int) -> Cloud:
    """Return a cloud of one node that is full of that many spot instances."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, grace_us=9)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.apply(FlavorAdded(at_us=0, flavor="big", demand=Resources(count)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(count)))
    for number in range(count):
        name = f"i{number}"
        cloud.apply(
            InstanceStarted(at_us=0, instance_id=name, market=Market.SPOT, flavor="small", node="n", lifetime_us=9)
        )
    cloud.commit()
    return cloud


@pytest.mark.parametrize("limit", ["MOST_VICTIMS", "MOST_HANDOVERS"])
def test_a_step_that_would_evict_too_many_is_an_error_and_changes_nothing(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = filled(4)
    before = cloud.digest()
    monkeypatch.setattr(decide, limit, 3)
    batch = decide_batch(cloud, [StartRequest("big", Market.ON_DEMAND, "big")], {}, 5, None)
    assert isinstance(batch.outcomes[0], TooManyEvictions)
    assert cloud.digest() == before


def test_one_owner_leaves_places_for_the_evictions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handovers, "HANDOVERS_OF_OWNER", 2)
    cloud, log = filled(8), list[Recorded]()

    def start(name: str, owner: str | None) -> bool:
        batch = decide_batch(cloud, [StartRequest(name, Market.ON_DEMAND, "small", owner=owner)], {}, 5, None)
        log.extend(batch.recorded)
        return isinstance(batch.outcomes[0], Started)

    assert [start("a1", "a"), start("a2", "a")] == [True, True]
    before = cloud.digest()
    assert not start("a3", "a")
    assert cloud.digest() == before
    assert [start("o1", None), start("b1", "b")] == [True, True]
    stops = [StopRequest(f"i{number}") for number in range(4)]
    spot = [StartRequest(f"s{number}", Market.SPOT, "small", 100) for number in range(4)]
    log.extend(decide_batch(cloud, [*stops, *spot], {}, 5, None).recorded)  # folded as a run, beside the start before
    assert Cloud.of_facts(cloud.facts()).handovers_of("a") == 2
    folded = filled(8)
    folded.apply_recorded(log)
    assert folded.digest() == cloud.digest()
    assert folded.handovers_of("a") == 2
    cloud.commit()
    (victim,) = {one.instance_id for one in cloud.known_handovers() if one.owner == "b"}
    for event in decide_confirmation(cloud, victim, 5):
        cloud.apply(event)
    assert not start("a3", "a")
    first = next(one.instance_id for one in cloud.known_handovers() if one.owner == "a")
    for event in decide_confirmation(cloud, first, 5):
        cloud.apply(event)
    assert start("a3", "a")
    cloud.rollback()
    assert cloud.digest() == folded.digest()
    assert [cloud.handovers_of(owner) for owner in ("a", "b")] == [2, 1]


def test_a_start_evicts_fewer_than_the_removal_of_a_node_may() -> None:
    batch = decide_batch(filled(1000), [StartRequest("big", Market.ON_DEMAND, "big")], {}, 5, None)
    assert len(batch.ended) == 1000
    cloud = filled(1001)
    batch = decide_batch(cloud, [StartRequest("big", Market.ON_DEMAND, "big")], {}, 5, None)
    assert isinstance(batch.outcomes[0], TooManyEvictions)
    assert sum(isinstance(event, InstanceEvicted) for event in decide_node_removal(cloud, "n", 5)) == 1001
