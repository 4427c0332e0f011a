"""Many steps decided or folded together have the same outcomes, events and state as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from app.admission.batch import Batch, Change, Step, decide_batch, decide_next
from app.admission.decide import decide_drill
from app.admission.limits import ids_to_look_up
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, NodeAdded, NodeDrained, Recorded
from app.domain.requests import StartRequest, StopRequest
from app.domain.values import Clock, EvictionPolicy, Guarantee, Market, Placement, Policy, Resources
from app.engine.cloud import Cloud
from app.engine.cloud.records import FIRST_ROWS
from app.engine.cluster import NO_NODE

SEEDS = range(40)


def a_cloud(random: Random) -> Cloud:
    """Return a cloud that is full after some dozens of starts."""
    cloud, nodes = Cloud(), random.randrange(1, 6)
    policy = Policy(
        guarantee=Guarantee.NONE,
        eviction_policy=random.choice([*EvictionPolicy]),
        placement=random.choice([*Placement]),
        grace_us=random.choice([0, 0, 5]),
        shared_ids=random.random() < 0.8,
        clock=random.choice([Clock.SYSTEM, Clock.SYSTEM, Clock.EXTERNAL]),
    )
    opening: list[Event] = [CloudCreated(at_us=0, policy=policy)]
    opening += [FlavorAdded(at_us=0, flavor="small", demand=Resources(1, 2))]
    opening += [FlavorAdded(at_us=0, flavor="large", demand=Resources(3, 1))]
    for number in range(nodes):
        size = Resources(random.randrange(2, 30), random.choice([0, 40]))
        opening.append(NodeAdded(at_us=0, node=f"n{number}", capacity=size))
    if nodes > 2:
        opening.append(NodeDrained(at_us=0, node="n1"))
    for event in opening:
        cloud.apply(event)
    cloud.commit()
    return cloud


def a_step(random: Random, names: int, at_us: int | None) -> Step:
    """Return a step, mostly a plain one; ids come again, so many are known, running or ended already."""
    name, owner = f"i{random.randrange(names)}", random.choice([None, None, None, "i1", "other"])
    kind = random.random()
    if kind < 0.01:
        return Change(lambda cloud, now_us: decide_drill(cloud, None, now_us), at_us)
    if kind < 0.4:
        return StopRequest(name, at_us, owner)
    market = Market.SPOT if kind < 0.5 else Market.ON_DEMAND
    flavor = random.choice(["small"] * 20 + ["large"] * 5 + ["unknown"])
    promise = 0.1 if random.random() < 0.02 else None
    return StartRequest(name, market, flavor, random.choice([9, 10**9]), promise, at_us, owner)


def a_batch(random: Random, cloud: Cloud, log: Sequence[Recorded]) -> tuple[list[Step], dict[str, Recorded]]:
    """Return steps, and what the log knows of their instances as far as a sequencer would look it up."""
    at_us = cloud.at_us if cloud.policy.clock is Clock.EXTERNAL else None
    names = random.choice([30, 300, 100_000])
    steps = [a_step(random, names, at_us) for _ in range(random.randrange(150))]
    starts = {item.event.instance_id: item for item in log if isinstance(item.event, InstanceStarted)}
    ids = ids_to_look_up(cloud, steps, every_start=random.random() < 0.5)
    return steps, {name: starts[name] for name in ids if name in starts}


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_are_decided_like_their_steps(seed: int) -> None:
    random, log = Random(seed), list[Recorded]()
    together, apart = a_cloud(Random(seed)), a_cloud(Random(seed))
    for round_ in range(12):
        server_us, before = random.randrange(50) + round_ * 10, together.digest()
        steps, past = a_batch(random, together, log)
        batch, other = decide_batch(together, steps, past, server_us, None), Batch(dict(past))
        assert all(decide_next(other, apart, step, server_us, None) for step in steps)
        assert [*map(repr, batch.outcomes)] == [*map(repr, other.outcomes)]
        assert (batch.recorded, batch.ended, batch.known) == (other.recorded, other.ended, other.known)
        assert together.digest() == apart.digest()
        if random.random() < 0.4:
            together.rollback()
            apart.rollback()
            assert together.digest() == apart.digest() == before
        else:
            together.commit()
            apart.commit()
            log += batch.recorded
    check_rows(together)
    check_fold(a_cloud(Random(seed)), apart, log)


def check_fold(cloud: Cloud, expected: Cloud, log: Sequence[Recorded]) -> None:
    """Check that the log folds to the same state in pieces of any size."""
    at, random = 0, Random(len(log))
    while at < len(log):
        size = random.randrange(1, 60)
        cloud.apply_recorded(log[at : at + size])
        at += size
    assert cloud.digest() == expected.digest()
    check_rows(cloud)


def check_rows(cloud: Cloud) -> None:
    """Check that the compiled form holds each running instance in a row of its own, and nothing else."""
    rows = {one.row for one in cloud.running.values()}
    assert len(rows) == len(cloud.running)
    assert rows == {int(row) for row in np.flatnonzero(cloud.cluster.node_of != NO_NODE)}
    for one in cloud.running.values():
        assert cloud.cluster.born[one.row] == one.seq
        assert cloud.cluster.deadline_us[one.row] == one.deadline_us
        assert cloud.cluster.is_spot[one.row] == (one.market is Market.SPOT)


def test_runs_are_decided_together_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing were plain, the tests above would hold too."""
    cloud, alone = Cloud(), list[object]()
    for event in (
        CloudCreated(at_us=0, policy=Policy()),
        FlavorAdded(at_us=0, flavor="small", demand=Resources(1)),
        NodeAdded(at_us=0, node="n", capacity=Resources(5 * FIRST_ROWS)),
    ):
        cloud.apply(event)
    place = Cloud.place_on_demand
    monkeypatch.setattr(Cloud, "place_on_demand", lambda *of: alone.append(of) or place(*of))
    starts = [StartRequest(f"i{number}", Market.ON_DEMAND, "small") for number in range(4 * FIRST_ROWS)]
    batch = decide_batch(cloud, [*starts, *(StopRequest(one.instance_id) for one in starts)], {}, 7, None)
    assert len(batch.recorded) == 8 * FIRST_ROWS
    assert not alone
    assert not cloud.running
    check_rows(cloud)
    cloud.rollback()
    check_rows(cloud)


def test_full_clouds_are_not_tried_for_runs_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, tried = Cloud(), list[int]()
    for event in (CloudCreated(at_us=0, policy=Policy()), FlavorAdded(at_us=0, flavor="small", demand=Resources(1))):
        cloud.apply(event)
    place_run = Cloud.place_run
    monkeypatch.setattr(Cloud, "place_run", lambda of, run: tried.append(len(run)) or place_run(of, run))
    starts = [StartRequest(f"i{number}", Market.ON_DEMAND, "small") for number in range(1000)]
    assert len(decide_batch(cloud, starts, {}, 7, None).recorded) == 1000
    assert sum(tried) < 1300
