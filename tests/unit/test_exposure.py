"""The charges of all classes in one pass over instances that stay sorted equal a plain walk for each class."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from oracles import exposure as plain
from oracles.histories import RandomCloud
from repeats import seeds

from app.domain.events import CloudCreated, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.values import Basis, Guarantee, Market, Policy, Resources
from app.engine.ages import SpotAges
from app.engine.cloud import Cloud, instances, rows
from app.engine.cluster import empty_cluster
from app.engine.eviction import spot_rows_by_youth
from app.judging.attainment import attainment_now

PROBABILITIES = (0.0, 0.01, 0.05, 0.2, 0.5)


@pytest.mark.parametrize("seed", seeds(40))
def test_charges_of_a_random_history_are_those_of_a_plain_walk_to_the_last_bit(seed: int) -> None:
    random = Random(seed)
    guarantee = random.choice([Guarantee.NONE, Guarantee.POOLED, Guarantee.STRATIFIED])
    world = RandomCloud(random, Policy(guarantee=guarantee, warm_up_us=0), commits=False)
    world.open()
    world.cloud.commit()
    for _ in range(80):
        world.step()
        if random.random() < 0.5:
            check(world)
        if random.random() < 0.2:
            forget_what_was_undone(world)
        elif random.random() < 0.5:
            world.cloud.commit()


def check(world: RandomCloud) -> None:
    cloud, now_us = world.cloud, world.now_us
    asked = sorted({*PROBABILITIES, *cloud.classes})
    expected = [plain.charges(cloud, one, now_us) for one in asked]
    assert cloud.charges_now(asked, now_us)() == expected
    assert [cloud.exposure(next(iter(cloud.flavors)), one, now_us)[0] for one in asked] == expected
    assert cloud.books_now(asked, now_us)() == [cloud.books(one, now_us) for one in asked]


def forget_what_was_undone(world: RandomCloud) -> None:
    """Take back everything since the last commit, and check that nothing of it is left in what was kept."""
    world.cloud.rollback()
    world.now_us = max(world.now_us, world.cloud.at_us)
    check(world)


def test_the_answer_is_of_the_moment_of_the_question() -> None:
    cloud = crowded(20, 4)
    before = attainment_now(cloud, 10)()
    ask = attainment_now(cloud, 10)
    for number in range(10):
        cloud.apply(InstanceStopped(at_us=10, instance_id=f"i-{number}"))
    assert ask() == before
    assert attainment_now(cloud, 10)() != before


@pytest.mark.parametrize("guarantee", [Guarantee.POOLED, Guarantee.STRATIFIED])
def test_all_classes_take_one_pass(guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    for module, name in ((instances, "exposure"), (rows, "borne")):
        made = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *of, made=made, name=name: passes.append(name) or made(*of))
    assert len(attainment_now(crowded(300, 100, guarantee), 10)()) == 100
    assert passes == ["exposure" if guarantee is Guarantee.POOLED else "borne"]


def test_rows_stay_sorted_while_their_instances_come_and_go() -> None:
    random, ages, cluster = Random(1), SpotAges(), empty_cluster(2, 64, 1)
    for born in range(1, 2000):
        row = random.randrange(64)
        runs = cluster.node_of[row] < 0
        cluster.node_of[row] = random.randrange(2) if runs else -1
        if runs:  # an earlier start comes back where an undone stop does
            cluster.born[row], cluster.is_spot[row] = random.choice([born, born - 0.5]) * 2, random.random() < 0.8
        if random.random() < 0.3:
            live = np.flatnonzero((cluster.node_of >= 0) & cluster.is_spot)
            assert ages.rows(cluster).tolist() == live[np.argsort(cluster.born[live])].tolist()


def test_a_decision_in_a_crowded_cloud_does_not_sort_all_instances_again() -> None:
    cloud = crowded(100_000, 1)
    sort_s = quickest_s(lambda: spot_rows_by_youth(cloud.cluster, 10))
    assert quickest_s(lambda: cloud.exposure("small", 0.5, 10)) < sort_s / 2


def quickest_s(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=1, repeat=15))


def crowded(count: int, classes: int, guarantee: Guarantee = Guarantee.POOLED) -> Cloud:
    """Return a cloud with so many spot instances of so many classes, the youngest in the first rows."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=guarantee)))
    cloud.apply(FlavorAdded(at_us=0, flavor="small", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(2 * count)))
    names = [f"old-{n}" for n in range(count)] + [f"i-{n}" for n in range(count)]
    events = [started(name, (n % classes + 1) / (classes + 1)) for n, name in enumerate(names)]
    stops = [InstanceStopped(at_us=0, instance_id=name) for name in names[:count]]
    past = [*events[:count], *stops, *events[count:]]
    cloud.apply_recorded(Recorded(seq, event) for seq, event in enumerate(past, cloud.seq + 1))
    return cloud


def started(name: str, probability: float) -> InstanceStarted:
    return InstanceStarted(
        at_us=0,
        instance_id=name,
        market=Market.SPOT,
        flavor="small",
        node="n",
        lifetime_us=10**9,
        basis=Basis(1, 1, probability, 10**9, probability / 2),
    )
