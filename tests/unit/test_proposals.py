"""Moves that are proposed in place of evictions: as the oracle finds them, and they do what they are said to do."""

from __future__ import annotations

from random import Random

import pytest
from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode
from oracles.moving import naive_proposals

from app.admission.move import decide_move
from app.domain.events import (
    CloudCreated,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    NodeAdded,
    NodeDrained,
)
from app.domain.requests import MoveRequest
from app.domain.values import EvictionReason, Guarantee, Market, Policy, ProposedMove, Resources
from app.engine.cloud import Cloud, Proposal

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


SIZES = Resources(1), Resources(2, 1), Resources(4, 2), Resources(5), Resources(6), Resources(1, 8)


class World:
    """A random cloud that is nearly full, beside its naive twin: instances stand anywhere, some nodes are closed."""

    def __init__(self, seed: int) -> None:
        self.random, self.cloud, self.naive = Random(seed), Cloud(), NaiveCluster()
        self.leaving: dict[str, tuple[int, ...]] = {}
        self.cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, grace_us=10)))
        for number, size in enumerate(SIZES):
            self.cloud.apply(FlavorAdded(at_us=0, flavor=f"f{number}", demand=size))
        for number in range(self.random.randint(2, 7)):
            size = Resources(self.random.randint(3, 8), self.random.choice([0, 4, 9]))
            self.cloud.apply(NodeAdded(at_us=0, node=f"n{number}", capacity=size))
            self.naive.nodes.append(NaiveNode(f"n{number}", tuple(size)))
        for number in range(self.random.randint(4, 24)):
            self.start(f"i{number}")
        for node in self.naive.nodes:
            if self.random.random() < 0.1:
                node.is_open = False
                self.cloud.apply(NodeDrained(at_us=0, node=node.name))

    def start(self, name: str) -> None:
        """Start an instance or a group on nodes drawn at random, if they have room; now and then evict it again."""
        number, count = self.random.randrange(len(SIZES)), 2 if self.random.random() < 0.1 else 1
        demand, is_spot = tuple(SIZES[number]), count > 1 or self.random.random() < 0.7
        nodes = self.random.sample(self.naive.nodes, count)
        if not all(self.naive.holds(node, self.naive.on(node), demand) for node in nodes):
            return
        lifetime_us, market = self.random.choice([1, 100]), SPOT if is_spot else ON_DEMAND
        places = tuple(node.name for node in nodes)
        told = {"at_us": 0, "market": market, "flavor": f"f{number}", "lifetime_us": lifetime_us, "node": places[0]}
        goes_first = is_spot and self.random.random() < 0.1
        start = InstanceStarted(
            instance_id=name,
            nodes=places if count > 1 else (),
            goes_first=goes_first,
            **told,  # type: ignore[arg-type]
        )
        born = self.cloud.apply(start).seq
        if is_spot and self.random.random() < 0.15:
            self.evict(name, places, demand)
            return
        deadline_us = lifetime_us if is_spot else 1 << 62
        one = NaiveInstance(name, is_spot, demand, born, deadline_us, nodes[0], nodes[1:], count, goes_first)
        self.naive.instances[name] = one

    def evict(self, name: str, places: tuple[str, ...], demand: tuple[int, ...]) -> None:
        told = {"at_us": 0, "instance_id": name, "reason": EvictionReason.DRILL, "cause_seq": self.cloud.seq + 2}
        self.cloud.apply(EvictionScheduled(**told, deadline_us=10))  # type: ignore[arg-type]
        self.cloud.apply(InstanceEvicted(**told))  # type: ignore[arg-type]
        for node in places:
            left = self.leaving.get(node, (0,) * len(demand))
            self.leaving[node] = tuple(a + b for a, b in zip(left, demand, strict=True))

    @property
    def flavors(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(flavor.resources) for name, flavor in self.cloud.flavors.items()}


def test_the_oracle_finds_the_same() -> None:
    told = 0
    for seed in range(1000):
        world = World(seed)
        digest = world.cloud.digest()
        found = world.cloud.proposals_now(5)()
        plain = [(one.flavor, one.node, tuple((m.instance_id, m.node, m.to) for m in one.moves)) for one in found]
        assert plain == naive_proposals(world.naive, world.flavors, world.leaving, 5), seed
        assert world.cloud.digest() == digest
        told += len(found)
    assert told > 40


def test_whoever_does_it_has_no_eviction() -> None:
    """Each move is accepted, the start finds room, and no flavor that had room has lost all of it."""
    for cloud in (World(seed).cloud for seed in range(1000)):
        had = {name for name in cloud.flavors if cloud.available_slots(name)}
        for proposal in cloud.proposals_now(5)():
            _, victims = cloud.place_on_demand(proposal.flavor, 5)
            assert [move.instance_id for move in proposal.moves] == [*victims], "they would go"
            for move in proposal.moves:
                flavor = cloud.running[move.instance_id].flavor
                (event,) = decide_move(cloud, MoveRequest(move.instance_id, move.to), 5)
                assert event.former_node == move.node
                cloud.apply(event)
                assert cloud.fits_on(flavor, move.node), "the room that it left"
            had.add(proposal.flavor)
            assert had <= {name for name in cloud.flavors if cloud.available_slots(name)}
            assert cloud.place_on_demand(proposal.flavor, 5) == (proposal.node, ())


@pytest.fixture
def cloud() -> Cloud:
    """Return a cloud in which `big` has no room: three cores are free on one node, one on another, none on the last."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE, grace_us=10)))
    for name, cores in (("big", 4), ("small", 1)):
        cloud.apply(FlavorAdded(at_us=0, flavor=name, demand=Resources(cores)))
    for node, cores in (("a", 4), ("b", 5), ("c", 1)):
        cloud.apply(NodeAdded(at_us=0, node=node, capacity=Resources(cores)))
    for name, market, flavor, node in (
        ("mover", SPOT, "small", "a"),
        ("od-b", ON_DEMAND, "big", "b"),
        ("od-c", ON_DEMAND, "small", "c"),
    ):
        cloud.apply(
            InstanceStarted(at_us=0, instance_id=name, market=market, flavor=flavor, node=node, lifetime_us=100)
        )
    return cloud


MOVE = [Proposal("big", "a", (ProposedMove("mover", "a", "b"),))]


def test_the_victim_of_the_next_start_finds_room_elsewhere(cloud: Cloud) -> None:
    assert cloud.place_on_demand("big", 1) == ("a", ("mover",))
    assert cloud.proposals_now(1)() == MOVE


def test_an_overrunning_one_is_left(cloud: Cloud) -> None:
    assert cloud.proposals_now(100)() == MOVE
    assert cloud.proposals_now(101)() == []


def test_room_that_somebody_may_still_use_is_none(cloud: Cloud) -> None:
    """The last core of `b` is free in the books, but its evicted instance may run until its deadline."""
    start = InstanceStarted(at_us=1, instance_id="gone", market=SPOT, flavor="small", node="b", lifetime_us=100)
    told = {"at_us": 1, "instance_id": "gone", "reason": EvictionReason.DRILL, "cause_seq": cloud.seq + 3}
    for event in (start, EvictionScheduled(**told, deadline_us=11), InstanceEvicted(**told)):  # type: ignore[arg-type]
        cloud.apply(event)
    assert cloud.proposals_now(10)() == []
    assert cloud.proposals_now(11)() == MOVE


def test_nobody_else_loses_the_last_room() -> None:
    """The mover could go where `wide` has its only room, and goes elsewhere, or nowhere."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)))
    for name, cores, memory in (("big", 4, 0), ("small", 1, 0), ("wide", 1, 8)):
        cloud.apply(FlavorAdded(at_us=0, flavor=name, demand=Resources(cores, memory)))
    for node, cores, memory in (("a", 4, 1), ("b", 1, 8)):
        cloud.apply(NodeAdded(at_us=0, node=node, capacity=Resources(cores, memory)))
    cloud.apply(InstanceStarted(at_us=0, instance_id="mover", market=SPOT, flavor="small", node="a", lifetime_us=100))
    assert cloud.proposals_now(1)() == []
    cloud.apply(NodeAdded(at_us=0, node="c", capacity=Resources(2, 1)))
    assert cloud.proposals_now(1)() == [Proposal("big", "a", (ProposedMove("mover", "a", "c"),))]
