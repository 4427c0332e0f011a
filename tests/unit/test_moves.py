"""Moves of running instances: the books follow, and nothing else changes."""

from __future__ import annotations

import pytest

from app.admission.batch import Batch, decide_batch
from app.admission.outcomes import Moved, Started, Stopped
from app.domain.errors import (
    InstanceNotFound,
    MoveOfEnded,
    MoveOfGroup,
    MoveToDrained,
    MoveWithoutRoom,
    NodeNotFound,
    TimeUnexpected,
)
from app.domain.events import CloudCreated, FlavorAdded, InstanceMoved, NodeAdded, NodeDrained
from app.domain.requests import MoveRequest, StartRequest, StopRequest
from app.domain.values import Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


def spot(name: str, count: int = 1) -> StartRequest:
    return StartRequest(name, SPOT, "c1", 1000, count=count)


@pytest.fixture
def cloud() -> Cloud:
    """Return a cloud of three nodes for two instances each, the last one drained."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)))
    for size in (1, 2):
        cloud.apply(FlavorAdded(at_us=0, flavor=f"c{size}", demand=Resources(size)))
    for node in ("a", "b", "shut"):
        cloud.apply(NodeAdded(at_us=0, node=node, capacity=Resources(2)))
    cloud.apply(NodeDrained(at_us=0, node="shut"))
    cloud.commit()
    return cloud


def decide(cloud: Cloud, *steps: StartRequest | StopRequest | MoveRequest) -> Batch:
    return decide_batch(cloud, steps, {}, 5, None)


def test_a_moved_instance_keeps_its_age_and_frees_its_former_node(cloud: Cloud) -> None:
    decide(cloud, spot("old"), spot("young"))
    batch = decide(cloud, MoveRequest("old", "b"), StartRequest("od", ON_DEMAND, "c1"))
    moved, started = batch.outcomes
    assert isinstance(moved, Moved)
    assert moved.changed == (
        InstanceMoved(at_us=5, instance_id="old", node="b", former_node="a"),
        batch.recorded[0].seq,
    )
    assert isinstance(started, Started)
    assert started.decision.node == "a", "the room that it left"
    assert cloud.running["old"].node == "b"
    assert [one.instance_id for one in cloud.on_node("b")] == ["old"]
    # Both nodes have one spot instance, and the younger one is evicted, wherever the older one is now.
    batch = decide(cloud, spot("last"), StartRequest("more", ON_DEMAND, "c1"))
    assert batch.outcomes[-1].decision.victims == ("last",)  # type: ignore[union-attr]
    batch = decide(cloud, StartRequest("most", ON_DEMAND, "c1"))
    assert batch.outcomes[-1].decision.victims == ("young",)  # type: ignore[union-attr]


def test_saying_it_again_changes_nothing(cloud: Cloud) -> None:
    decide(cloud, spot("s"))
    decide(cloud, MoveRequest("s", "b"))
    seq = cloud.seq
    batch = decide(cloud, MoveRequest("s", "b"), MoveRequest("s", "b"))
    assert batch.outcomes == [Moved("s", "b", None)] * 2
    assert (batch.recorded, cloud.seq) == ([], seq)


def test_an_undone_move_leaves_no_trace(cloud: Cloud) -> None:
    decide(cloud, spot("s"))
    cloud.commit()
    digest = cloud.digest()
    decide(cloud, MoveRequest("s", "b"))
    assert cloud.digest() != digest
    cloud.rollback()
    assert cloud.digest() == digest
    assert Cloud.of_facts(cloud.facts()).digest() == digest


def test_who_and_where_not(cloud: Cloud) -> None:
    decide(cloud, spot("s"), spot("ended"), StopRequest("ended"), StartRequest("od", ON_DEMAND, "c2"))
    batch = decide(
        cloud,
        MoveRequest("s", "b"),
        MoveRequest("s", "shut"),
        MoveRequest("s", "none"),
        MoveRequest("nobody", "b"),
        spot("gone"),
        StopRequest("gone"),
        MoveRequest("gone", "b"),
    )
    assert [*map(type, batch.outcomes)] == [
        MoveWithoutRoom, MoveToDrained, NodeNotFound, InstanceNotFound, Started, Stopped, MoveOfEnded,
    ]  # fmt: skip
    assert len(batch.recorded) == 2


def test_no_move_on_a_system_clock_brings_a_time(cloud: Cloud) -> None:
    """Also one that changes nothing."""
    decide(cloud, spot("s"))
    batch = decide(cloud, *(MoveRequest("s", node, at_us=1) for node in ("a", "b")))
    assert [*map(type, batch.outcomes)] == [TimeUnexpected, TimeUnexpected]
    assert batch.recorded == []


def test_a_group_does_not_move(cloud: Cloud) -> None:
    decide(cloud, spot("group", 2))
    (outcome,) = decide(cloud, MoveRequest("group", "b")).outcomes
    assert isinstance(outcome, MoveOfGroup)
