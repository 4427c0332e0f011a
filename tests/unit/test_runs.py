"""Many steps decided or folded together have the same outcomes, events and state as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from app.admission.batch import Batch, decide_batch, decide_next
from app.admission.decide import decide_drill
from app.admission.limits import ids_to_look_up
from app.admission.outcomes import Change, Step
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    Recorded,
)
from app.domain.requests import StartRequest, StopRequest
from app.domain.strata import BOUNDARIES_US, stratum_index
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, Clock, EvictionPolicy, Guarantee, Market, Placement, Policy, Resources
from app.domain.wanted import Wanted
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


WEEK_US = 7 * DAY_US


def a_log(random: Random, count: int) -> list[Event]:
    """Return starts and stops of spot instances, many of them promised something, in groups, or with an owner."""
    found: list[Event] = []
    running: list[str] = []
    at_us = 0
    for number in range(count):
        at_us += random.choice([0, 1, HOUR_US, 2 * DAY_US])
        if running and random.random() < 0.45:
            found.append(InstanceStopped(at_us=at_us, instance_id=running.pop(random.randrange(len(running)))))
            continue
        running.append(f"i{number}")
        promised, risk = random.choice([None, 0.01, 0.05, 0.1]), random.choice([None, 0.001, 0.03])
        basis = random.choice([None, Basis(7, 1, probability=promised, estimated_probability=risk)])
        size, market = random.choice([0, 0, 3]), random.choice([Market.SPOT, Market.SPOT, Market.ON_DEMAND])
        nodes = tuple(f"n{random.randrange(3)}" for _ in range(size))
        found.append(
            InstanceStarted(
                at_us=at_us,
                instance_id=running[-1],
                market=market,
                flavor=random.choice(["small", "large"]),
                node=nodes[0] if nodes else f"n{random.randrange(3)}",
                lifetime_us=random.choice([1, HOUR_US, 3 * DAY_US, WEEK_US]),
                probability=promised,
                basis=basis if market is Market.SPOT else None,
                wanted=random.choice([None, Wanted(2 * WEEK_US)]) if market is Market.SPOT else None,
                nodes=nodes if market is Market.SPOT else (),
                owner=random.choice([None, "a", "b"]),
            )
        )
    return found


def an_empty_cloud() -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    for name, demand in (("small", Resources(1)), ("large", Resources(3, 1))):
        cloud.apply(FlavorAdded(at_us=0, flavor=name, demand=demand))
    for number in range(3):
        cloud.apply(NodeAdded(at_us=0, node=f"n{number}", capacity=Resources(10**6)))
    cloud.commit()
    return cloud


@pytest.mark.parametrize("seed", range(20))
def test_promised_instances_are_folded_in_runs_as_one_by_one(seed: int) -> None:
    random, together, apart = Random(seed), an_empty_cloud(), an_empty_cloud()
    left = a_log(random, 600)
    while left:
        run, before = left[: random.choice([1, 4, 30, 200])], together.digest()
        together.apply_run([one for one in run if isinstance(one, InstanceStarted | InstanceStopped)])
        for event in run:
            apart.apply(event)
        assert together.digest() == apart.digest()
        for cloud in (together, apart) if random.random() < 0.5 else ():
            check_columns(cloud)
        together.rollback()
        assert together.digest() == before
        check_columns(together)
        together.apply_run([one for one in run if isinstance(one, InstanceStarted | InstanceStopped)])
        now_us, later_us = together.at_us, together.at_us + WEEK_US
        assert together.outcomes_now(later_us)() == apart.outcomes_now(later_us)()
        assert together.overrunning_now(later_us)() == apart.overrunning_now(later_us)()
        assert together.books(0.01, now_us) == apart.books(0.01, now_us)
        together.commit()
        apart.commit()
        left = left[len(run) :]
    check_columns(together)


def check_columns(cloud: Cloud) -> None:
    """Check that the columns tell of each running instance what it is, and nothing of any other row."""
    columns, expected = cloud._instances.rows.columns, np.zeros(len(cloud.cluster.node_of))
    firsts, there = expected.copy(), expected.copy()
    for one in cloud.running.values():
        expected[[*one.rows]] = one.probability or 0.0
        firsts[one.row] = 1
        there[[one.rows[one.places.index(node)] for node in {*one.places}]] = 1
        if one.market is Market.SPOT:
            assert columns.started_us[one.row] == one.started_us
            assert columns.rates[one.row] == (one.risk or 0.0) / one.book_lifetime_us
            assert columns.book_lifetimes_us[one.row] == one.book_lifetime_us
            assert columns.strata[one.row] == stratum_index(one.book_lifetime_us, BOUNDARIES_US)
    assert columns.are_first.tolist() == firsts.astype(bool).tolist()
    assert columns.count_there.tolist() == there.astype(bool).tolist()
    empty = cloud.cluster.node_of == NO_NODE
    assert not any(column[empty].any() for column in columns)
