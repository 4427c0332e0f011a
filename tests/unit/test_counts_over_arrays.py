"""Counts over the compiled form of running instances equal plain counts over the instances."""

from __future__ import annotations

import timeit
import tracemalloc
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from oracles.histories import RandomCloud
from repeats import seeds

from app.admission.decide import decide_confirmation, drill_victim
from app.domain.errors import DrillImpossible
from app.domain.events import (
    CloudCreated,
    EvictionRisk,
    FlavorAdded,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.times import to_datetime
from app.domain.values import Guarantee, Market, Policy, Resources, RiskLevel
from app.engine.cloud import Cloud, Running
from app.judging.attainment import attainment_now
from app.notices.leaving import notices_of
from app.scheduling.store.codec import decode
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.utilisation.usage import usage_by_node, usage_of

MARKETS = (Market.ON_DEMAND, Market.SPOT)


@pytest.mark.parametrize("seed", seeds(30))
def test_counts_over_arrays_are_the_plain_counts(seed: int) -> None:
    random = Random(seed)
    guarantee = random.choice([*Guarantee])
    world = RandomCloud(random, Policy(guarantee=guarantee, warm_up_us=0, grace_us=random.choice([0, 30])))
    world.open()
    for _ in range(120):
        world.step()
        check(world.cloud, world.now_us)
        check_risks(world.cloud, world.now_us)


def check_risks(cloud: Cloud, now_us: int) -> None:
    at_risk = [cloud.running[name] for name in cloud.at_risk]
    first = sorted(at_risk, key=lambda one: (now_us > one.deadline_us, one.seq), reverse=True)
    for count in (1, 3, 10):
        assert cloud.first_at_risk(count, now_us) == first[:count]


@pytest.mark.parametrize("seed", seeds(30))
def test_what_is_at_risk_is_told_from_the_state_whatever_was_undone(seed: int) -> None:
    """Single events, runs of events and loading keep the array of those at risk each in a way of its own."""
    random = Random(seed)
    cloud = crowded(40)
    spots = sorted(cloud.running)
    cloud.apply_recorded([Recorded(cloud.seq + 1 + n, risk(name)) for n, name in enumerate(spots[::2])])
    check_risks(cloud, 0)
    for _ in range(3):
        before = cloud.digest()
        chosen = random.sample(sorted(cloud.running), 12)
        cloud.apply(InstanceStopped(at_us=0, instance_id=chosen[0]))
        cloud.apply_run([InstanceStopped(at_us=0, instance_id=name) for name in chosen[1:8]])
        for name in chosen[8:]:
            cloud.apply(risk(name))
        check_risks(cloud, 0)
        cloud.rollback()
        check_risks(cloud, 0)
        assert cloud.digest() == before
        cloud.apply_run([InstanceStopped(at_us=0, instance_id=name) for name in chosen[:5]])
        cloud.commit()
        check_risks(cloud, 0)
    check_risks(Cloud.of_facts(cloud.facts()), 0)


def risk(name: str) -> EvictionRisk:
    return EvictionRisk(
        at_us=0, instance_id=name, level=RiskLevel.RAISED, probability=0.9, threshold=0.5, epoch=1, slots=1
    )


def check(cloud: Cloud, now_us: int) -> None:
    spots = [one for one in cloud.running.values() if one.market is Market.SPOT]
    check_pages(cloud)
    within = Counter(one.probability or 0.0 for one in spots if now_us < one.deadline_us)
    assert cloud.promises_within(now_us) == within
    assert [one.running for one in attainment_now(cloud, now_us)()] == [within[one] for one in sorted(cloud.classes)]
    if spots:
        assert drill_victim(cloud, None) == max(spots, key=lambda one: one.seq).instance_id
    else:
        with pytest.raises(DrillImpossible, match="no spot instance is running"):
            drill_victim(cloud, None)
    there = [*cloud.nodes.values()]
    of_node = {one.node.name: one for one in usage_by_node(cloud)}
    assert [*of_node] == [node.name for node in sorted(there, key=lambda node: node.index)]
    for name, one in of_node.items():
        usage = one.usage
        assert used(cloud, {name}) == (usage.on_demand, usage.spot, usage.on_demand_count, usage.spot_count)
        assert usage.total == one.node.capacity.cores
    usage = usage_of(cloud)
    everywhere = {node.name for node in there}
    assert used(cloud, everywhere) == (usage.on_demand, usage.spot, usage.on_demand_count, usage.spot_count)
    assert usage.total == sum(node.capacity.cores for node in there)
    by_deadline = sorted(cloud.handovers.values(), key=lambda one: (one.deadline_us, one.instance_id))
    assert [*cloud.known_handovers()] == by_deadline


def check_pages(cloud: Cloud) -> None:
    for market in (None, *MARKETS):
        asked = [one for one in cloud.running.values() if market in (None, one.market)]
        by_start = sorted(asked, key=lambda one: one.seq)
        for after_seq in (0, *(one.seq for one in by_start[::2])):
            ids = [one.instance_id for one in by_start if one.seq > after_seq]
            for count in (1, 3, 1000):
                assert [*cloud.oldest(after_seq, count, market)] == ids[:count]


def used(cloud: Cloud, nodes: set[str]) -> tuple[int, ...]:
    running = [one for one in cloud.running.values() if nodes.intersection(one.places)]
    cores = [sum(cores_on(cloud, one, nodes) for one in running if one.market is of) for of in MARKETS]
    return *cores, *(sum(one.market is of for one in running) for of in MARKETS)


def cores_on(cloud: Cloud, one: Running, nodes: set[str]) -> int:
    return cloud.flavors[one.flavor].resources.cores * sum(place in nodes for place in one.places)


def test_a_drill_is_of_a_running_spot_instance_alone() -> None:
    with pytest.raises(DrillImpossible, match="'i-1' is not a running spot instance"):
        drill_victim(Cloud(), "i-1")


def test_reads_of_a_crowded_cloud_take_a_fraction_of_a_walk_over_its_instances() -> None:
    cloud = crowded(50_000)
    cloud.apply_recorded([Recorded(cloud.seq + 1 + n, risk(name)) for n, name in enumerate([*cloud.running])])
    reads: list[Callable[[], object]] = [
        lambda: drill_victim(cloud, None),
        lambda: cloud.promises_within(0),
        lambda: cloud.oldest(0, 1000, None),
        lambda: usage_of(cloud),
        lambda: usage_by_node(cloud),
        lambda: notices_of(cloud, to_datetime(0)),
    ]
    walk_s = quickest_s(lambda: max(cloud.running.values(), key=lambda one: one.deadline_us))
    for number, read in enumerate(reads):
        assert quickest_s(read) < walk_s / 2, number


def quickest_s(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=1, repeat=7))


def crowded(count: int) -> Cloud:
    """Return a cloud with so many spot instances on one node."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(count)))
    starts = [
        InstanceStarted(at_us=0, instance_id=f"i-{n}", market=Market.SPOT, flavor="small", node="n", lifetime_us=9)
        for n in range(count)
    ]
    cloud.apply_recorded(Recorded(seq, event) for seq, event in enumerate(starts, cloud.seq + 1))
    return cloud


def test_hand_overs_are_sorted_once_after_a_change() -> None:
    world = RandomCloud(Random(4), Policy(guarantee=Guarantee.NONE, grace_us=1000))
    world.open()
    while len(world.cloud.handovers) < 2:
        world.step()
    before = world.cloud.known_handovers()
    assert world.cloud.known_handovers() is before
    world.apply([*decide_confirmation(world.cloud, before[0].instance_id, world.now_us)])
    assert world.cloud.known_handovers() == before[1:]


def test_instances_share_equal_values_however_they_came_into_the_state() -> None:
    """Each event and each loaded instance brings strings and numbers of its own."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="node", capacity=Resources(20)))
    basis = '{"slots": 9, "probability": 0.125}'
    starts = [
        decode(
            "instance_started",
            1,
            f'{{"at_us": 1000, "instance_id": "i{n}", "market": "spot", "flavor": "small", "node": "node",'
            f' "lifetime_us": 3000, "basis": {basis}}}',
        )
        for n in range(9)
    ]
    cloud.apply_recorded(Recorded(seq, event) for seq, event in enumerate(starts[:-1], cloud.seq + 1))
    cloud.apply(starts[-1])
    cloud.commit()
    loaded = decode_cloud(encode_cloud(cloud))
    assert loaded is not None
    for state in (cloud, loaded):
        for name in ("flavor", "node", "lifetime_us", "probability", "started_us"):
            assert len({id(getattr(one, name)) for one in state.running.values()}) == 1, name


def test_a_loaded_instance_takes_half_a_kilobyte_and_loading_little_more() -> None:
    count, data = 20_000, encode_cloud(crowded(20_000))
    tracemalloc.start()
    loaded = decode_cloud(data)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert loaded is not None
    assert kept / count < 540
    assert peak / count < 850
