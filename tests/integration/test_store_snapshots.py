"""Snapshots: the state that comes back is the state that was folded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count
from time import perf_counter

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeRemoved,
    PolicyChanged,
    Recorded,
)
from app.domain.values import Basis, Clock, EvictionReason, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.snapshots import Snapshots, decode_cloud, encode_cloud

_names = count(1)
ON_DEMAND, SPOT = Market.ON_DEMAND, Market.SPOT


def folded(events: list[Event]) -> Cloud:
    cloud = Cloud()
    cloud.apply_recorded(Recorded(seq, event) for seq, event in enumerate(events, 1))
    return cloud


HISTORY: list[Event] = [
    CloudCreated(at_us=5, policy=Policy(clock=Clock.EXTERNAL)),
    NodeAdded(at_us=6, node="b", capacity=Resources(8, 1024)),
    NodeAdded(at_us=6, node="a", capacity=Resources(4)),
    FlavorAdded(at_us=7, flavor="z", demand=Resources(2, 100)),
    FlavorAdded(at_us=7, flavor="small", demand=Resources(1)),
    NodeAdded(at_us=8, node="gone", capacity=Resources(2)),
    NodeAdded(at_us=8, node="drained", capacity=Resources(2)),
    InstanceStarted(
        at_us=9,
        instance_id="s1",
        market=SPOT,
        flavor="small",
        node="gone",
        lifetime_us=100,
        probability=None,
        basis=Basis(15, 1, 0.01, 200, 0.001),
    ),
    InstanceStarted(
        at_us=9,
        instance_id="s2",
        market=SPOT,
        flavor="z",
        node="b",
        lifetime_us=100,
        probability=0.2,
        basis=Basis(15, 1, 0.2, 200, 0.001),
    ),
    InstanceEvicted(at_us=10, instance_id="s1", reason=EvictionReason.NODE_REMOVED, cause_seq=11),
    NodeRemoved(at_us=10, node="gone"),
    NodeDrained(at_us=10, node="drained"),
    InstanceStarted(at_us=11, instance_id="d1", market=ON_DEMAND, flavor="small", node="a"),
    InstanceStarted(at_us=11, instance_id="d2", market=ON_DEMAND, flavor="z", node="b", lifetime_us=70),
    InstanceRejected(at_us=11, instance_id="d3", market=ON_DEMAND, flavor="z", reason=Rejection.NO_CAPACITY),
    NodeAdded(at_us=12, node="gone", capacity=Resources(16)),
    InstanceStarted(
        at_us=13,
        instance_id="s3",
        market=SPOT,
        flavor="z",
        node="gone",
        lifetime_us=7,
        probability=None,
        basis=Basis(15),
    ),
    InstanceStopped(at_us=14, instance_id="d1"),
    PolicyChanged(at_us=15, policy=Policy(clock=Clock.EXTERNAL, eviction_probability=0.3)),
]


def crowded(count: int) -> Cloud:
    """Return a cloud in which that many instances run."""
    node, flavor = NodeAdded(at_us=6, node="n", capacity=Resources(count)), HISTORY[4]
    starts = [
        InstanceStarted(at_us=8, instance_id=f"i-{number}", market=ON_DEMAND, flavor="small", node="n")
        for number in range(count)
    ]
    return folded([HISTORY[0], node, flavor, *starts])


async def timed(work: Awaitable[object]) -> tuple[float, float]:
    """Return the time that the work takes, and the longest during which nothing else ran meanwhile."""
    pieces_s: list[float] = []

    async def tick() -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(0.001)
            pieces_s.append(perf_counter() - began)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    began = perf_counter()
    await work
    took_s = perf_counter() - began
    await asyncio.sleep(0.01)
    ticking.cancel()
    return took_s, max(pieces_s)


@pytest.mark.parametrize("length", range(1, len(HISTORY) + 1))
def test_the_state_comes_back_equal(length: int) -> None:
    cloud = folded(HISTORY[:length])
    copy = decode_cloud(encode_cloud(cloud))
    assert copy is not None
    assert copy.digest() == cloud.digest()
    assert [one.name for one in copy.nodes_in_order()] == [one.name for one in cloud.nodes_in_order()]


@pytest.mark.parametrize("length", range(1, len(HISTORY)))
def test_the_fold_goes_on_from_a_snapshot(length: int) -> None:
    copy = decode_cloud(encode_cloud(folded(HISTORY[:length])))
    assert copy is not None
    copy.apply_recorded(Recorded(seq, event) for seq, event in enumerate(HISTORY[length:], length + 1))
    whole = folded(HISTORY)
    assert copy.digest() == whole.digest()
    for flavor in whole.flavors:
        assert copy.available_slots(flavor) == whole.available_slots(flavor)
        assert copy.fitting_node(flavor) == whole.fitting_node(flavor)
        assert copy.place_on_demand(flavor, 16) == whole.place_on_demand(flavor, 16)


def test_there_is_nothing_to_roll_back_after_a_snapshot() -> None:
    copy = decode_cloud(encode_cloud(folded(HISTORY)))
    assert copy is not None
    before = copy.digest()
    copy.rollback()
    assert copy.digest() == before


def test_bytes_that_are_no_snapshot_are_none() -> None:
    assert decode_cloud(b"") is None
    assert decode_cloud(encode_cloud(folded(HISTORY))[:-9]) is None


@pytest.mark.anyio
class TestStored:
    @pytest.fixture
    async def cloud_id(self, database: Database) -> int:
        return await Clouds(database).create(f"snapshots-{next(_names)}", Recorded(1, HISTORY[0]))

    async def test_saved_and_loaded(self, database: Database, cloud_id: int) -> None:
        snapshots = Snapshots(database)
        assert await snapshots.load(cloud_id) is None
        assert await snapshots.newest_seq(cloud_id) is None
        await snapshots.save(cloud_id, folded(HISTORY))
        loaded = await snapshots.load(cloud_id)
        assert loaded is not None
        assert loaded.digest() == folded(HISTORY).digest()
        assert await snapshots.newest_seq(cloud_id) == len(HISTORY)

    async def test_an_older_state_does_not_replace_a_newer_one(self, database: Database, cloud_id: int) -> None:
        snapshots = Snapshots(database)
        for length in (3, 9, 4):
            await snapshots.save(cloud_id, folded(HISTORY[:length]))
        assert await snapshots.newest_seq(cloud_id) == 9

    async def test_a_state_is_saved_as_it_was_at_the_call(self, database: Database, cloud_id: int) -> None:
        snapshots, cloud = Snapshots(database), folded(HISTORY[:9])
        saving = asyncio.create_task(snapshots.save(cloud_id, cloud))
        await asyncio.sleep(0)
        for event in HISTORY[9:]:
            cloud.apply(event)
        await saving
        loaded = await snapshots.load(cloud_id)
        assert loaded is not None
        assert loaded.digest() == folded(HISTORY[:9]).digest()

    async def test_others_go_on_while_a_large_state_is_saved_and_loaded(
        self, database: Database, cloud_id: int
    ) -> None:
        snapshots, cloud = Snapshots(database), crowded(60_000)
        for work in (lambda: snapshots.save(cloud_id, cloud), lambda: snapshots.load(cloud_id)):
            took_s, longest_s = await timed(work())
            assert longest_s < 0.8 * took_s, f"{longest_s:.3f} s of {took_s:.3f} s in one piece"

    @pytest.mark.parametrize("change", ["version = 99", "digest = 'other'", "data = 'rubbish'"])
    async def test_a_snapshot_that_cannot_be_used_counts_as_none(
        self, database: Database, cloud_id: int, change: str
    ) -> None:
        snapshots = Snapshots(database)
        await snapshots.save(cloud_id, folded(HISTORY))
        await database.execute(f"UPDATE snapshot SET {change} WHERE cloud_id = %(id)s", {"id": cloud_id})
        assert await snapshots.load(cloud_id) is None
