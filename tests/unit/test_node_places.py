"""Places of nodes in the compiled form: nodes that come and go leave none behind, and decisions stay the same."""

from __future__ import annotations

from random import Random

import pytest
from oracles.histories import RandomCloud, random_log
from repeats import seeds
from unit.test_engine import assert_same_decisions, assert_same_state, decided, naive_state, small_policy

from app.domain.events import CloudCreated, FlavorAdded, InstanceStarted, NodeAdded, NodeRemoved, Recorded
from app.domain.values import EvictionPolicy, Market, Resources
from app.engine.cloud import Cloud
from app.engine.cloud import nodes as parts_of_nodes
from app.scheduling.store.snapshots import decode_cloud, encode_cloud


def churned(pairs: int, names: int = 1) -> Cloud:
    """A cloud of two nodes to which a third was added and removed so many times."""
    events = [
        CloudCreated(at_us=0, policy=small_policy()),
        FlavorAdded(at_us=0, flavor="f", demand=Resources(1)),
        NodeAdded(at_us=0, node="first", capacity=Resources(1)),
    ]
    for number in range(pairs):
        events += [
            NodeAdded(at_us=1, node=f"n{number % names}", capacity=Resources(1)),
            NodeRemoved(at_us=1, node=f"n{number % names}"),
        ]
    events += [
        NodeAdded(at_us=2, node="last", capacity=Resources(2)),
        InstanceStarted(at_us=2, instance_id="a", market=Market.ON_DEMAND, flavor="f", node="last"),
    ]
    cloud = Cloud()
    cloud.apply_recorded(Recorded(seq, event) for seq, event in enumerate(events, 1))
    return cloud


@pytest.mark.parametrize("names", [1, 10_000])
def test_nodes_that_come_and_go_leave_nothing_behind(names: int) -> None:
    few, many = churned(1, names), churned(10_000, names)
    assert len(many.cluster.free) < 2000
    assert [node.name for node in many.nodes_in_order()] == ["first", "last"]
    assert len(many.facts().nodes) == 2
    assert len(encode_cloud(many)) < len(encode_cloud(few)) + 20
    assert decided(many, 2) == decided(few, 2)
    assert many.free("last") == Resources(1)


def test_additions_seldom_copy_the_nodes() -> None:
    cloud, arrays = Cloud(), set()
    cloud.apply(CloudCreated(at_us=0, policy=small_policy()))
    for number in range(10_000):
        cloud.apply(NodeAdded(at_us=0, node=f"n{number}", capacity=Resources(1)))
        arrays.add(cloud.cluster.free.__array_interface__["data"][0])
    assert len(arrays) < 20
    cloud.rollback()
    assert len(cloud.cluster.free) == len(cloud.nodes) == 0


@pytest.mark.parametrize("seed", seeds(20))
def test_decisions_are_the_oracles_wherever_places_are_given_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_of_nodes, "FEWEST_GIVEN_UP", 0)
    policy = Random(seed).choice([*EvictionPolicy])
    world, gave_up = RandomCloud(Random(seed), small_policy(policy)), False
    world.open()
    for _ in range(250):
        world.step()
        if world.random.random() < 0.1:
            for name in [*world.cloud.nodes]:  # where on-demand instances run, the node stays
                world.remove_node(name)
            world.add_node()
        naive = naive_state(world)
        assert_same_state(world.cloud, naive)
        assert_same_decisions(world.cloud, naive, world.now_us, policy)
        places = len(world.cloud.cluster.free)
        assert places <= 2 * len(world.cloud.nodes) + 1
        gave_up = gave_up or places < len(naive.nodes)
    assert gave_up


@pytest.mark.parametrize("seed", seeds(10))
def test_states_are_equal_whenever_places_were_given_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(seed, 300, EvictionPolicy.YJF)
    plain, often = Cloud(), Cloud()
    plain.apply_recorded(log)
    monkeypatch.setattr(parts_of_nodes, "FEWEST_GIVEN_UP", 0)
    for item in log:
        often.apply_recorded([item])
    assert often.digest() == plain.digest()
    assert decided(often, log[-1].event.at_us) == decided(plain, log[-1].event.at_us)
    loaded = decode_cloud(encode_cloud(often))
    assert loaded is not None
    assert loaded.digest() == plain.digest()
