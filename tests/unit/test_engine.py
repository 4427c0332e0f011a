"""The compiled engine against its naive twin, decision by decision and state by state."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode, youth
from oracles.histories import RandomCloud, random_log
from oracles.replay import NaiveHistory
from repeats import seeds

from app.admission.decide import decide_node_removal, decide_start, decide_stop
from app.domain.events import CloudCreated, FlavorAdded, InstanceRejected, NodeAdded, NodeDrained
from app.domain.requests import StartRequest
from app.domain.values import Clock, EvictionPolicy, Guarantee, Market, Placement, Policy, Resources
from app.engine.cloud import Cloud
from app.engine.cluster import GOES_FIRST_US
from app.engine.eviction import spot_rows_by_youth
from benchmarks.walks import cluster_of, walk_ms

POLICIES = list(EvictionPolicy)


def small_policy(
    eviction_policy: EvictionPolicy = EvictionPolicy.YJF,
    placement: Placement = Placement.FIRST_FIT,
    *,
    displaces: bool = False,
) -> Policy:
    return Policy(
        guarantee=Guarantee.NONE,
        eviction_policy=eviction_policy,
        placement=placement,
        displaces_overrunning=displaces,
    )


@pytest.mark.parametrize("placement", [*Placement])
@pytest.mark.parametrize("eviction_policy", POLICIES)
@pytest.mark.parametrize("seed", seeds(40))
def test_every_decision_is_the_oracles(seed: int, eviction_policy: EvictionPolicy, placement: Placement) -> None:
    policy = small_policy(eviction_policy, placement, displaces=seed % 2 == 1)
    world = RandomCloud(Random(seed), policy, holds=seed % 4 > 1)
    world.open()
    for _ in range(250):
        world.step()
        naive = naive_state(world)
        assert_same_state(world.cloud, naive)
        assert_same_decisions(world.cloud, naive, world.now_us + Random(seed).choice([0, 1, 30]), eviction_policy)


def naive_state(world: RandomCloud) -> NaiveCluster:
    return NaiveHistory(world.log, world.policy, world.now_us + 1).opening(world.now_us + 1)


def assert_same_state(cloud: Cloud, naive: NaiveCluster) -> None:
    placed = {name: ([*running.places], running.seq) for name, running in cloud.running.items()}
    assert placed == {name: ([n.name for n in one.nodes], one.born) for name, one in naive.instances.items()}
    spot = {name: running.deadline_us for name, running in cloud.running.items() if running.market is Market.SPOT}
    assert spot == {name: one.deadline_us for name, one in naive.instances.items() if one.is_spot}
    deadlines = {name: int(cloud.cluster.deadline_us[running.row]) for name, running in cloud.running.items()}
    ranks = {name: GOES_FIRST_US if naive.instances[name].goes_first else spot[name] for name in spot}
    assert {name: deadlines[name] for name in spot} == ranks
    for node in cloud.nodes.values():
        used = [i.demand for i in naive.instances.values() for at in i.nodes if at.name == node.name]
        left = [c - sum(demand[r] for demand in used) if c else 0 for r, c in enumerate(node.capacity)]
        assert list(cloud.free(node.name)) == left
        assert min(left) >= 0


def assert_same_decisions(cloud: Cloud, naive: NaiveCluster, now_us: int, policy: EvictionPolicy) -> None:
    for flavor in cloud.flavors.values():
        demand = tuple(flavor.resources)
        fit = naive.fitting_node(demand)
        assert cloud.fitting_node(flavor.name) == (fit and fit.name)
        assert cloud.available_slots(flavor.name) == naive.slots(demand)
        assert [*cloud.fitting_nodes(flavor.name, 3)] == group_nodes(naive, demand, 3)
        plan = naive.place_on_demand(demand, now_us, policy.value)
        found = (plan[0].name, tuple(victim.name for victim in plan[1])) if plan else (None, ())
        assert cloud.place_on_demand(flavor.name, now_us) == found
        if fit is None:
            plan = naive.displace(demand, now_us)
            found = (plan[0].name, tuple(victim.name for victim in plan[1])) if plan else (None, ())
            assert cloud.displace(flavor.name, now_us) == found


def group_nodes(naive: NaiveCluster, demand: tuple[int, ...], count: int) -> list[str]:
    group = NaiveInstance("group", True, demand, 0, 0, naive.nodes[0], count=count)
    placed = naive.start_spot(group) is not None
    naive.instances.pop("group", None)
    return [node.name for node in group.nodes] if placed else []


@pytest.mark.parametrize("seed", seeds(20))
def test_rollback_leaves_no_trace(seed: int) -> None:
    random = Random(seed)
    world = RandomCloud(random, small_policy(displaces=seed % 2 == 1), holds=seed % 4 > 1)
    world.open()
    for _ in range(30):
        world.step()
        before, decisions = world.cloud.digest(), decided(world.cloud, world.now_us)
        log = list(world.log)
        world.commits = False
        for _ in range(random.randint(1, 100)):
            world.step()
        world.cloud.rollback()
        world.commits = True
        world.log, world.now_us = log, world.cloud.at_us
        assert world.cloud.digest() == before
        assert decided(world.cloud, world.now_us) == decisions


def decided(cloud: Cloud, now_us: int) -> list[object]:
    """Return what the next start of each flavor would get."""
    flavors = cloud.flavors
    return [(f, cloud.available_slots(f), cloud.fitting_node(f), cloud.place_on_demand(f, now_us)) for f in flavors]


@pytest.mark.parametrize("seed", seeds(10))
def test_two_folds_of_one_log_are_equal(seed: int) -> None:
    log = random_log(seed, 300, EvictionPolicy.YJF, holds=seed % 2 == 1)
    clouds = [Cloud(), Cloud()]
    for recorded in log:
        clouds[0].apply_recorded([recorded])
    clouds[1].apply_recorded(log)
    assert clouds[0].digest() == clouds[1].digest()
    assert decided(clouds[0], log[-1].event.at_us) == decided(clouds[1], log[-1].event.at_us)


def cloud_of(capacity: Resources, *demands: Resources, policy: Policy | None = None) -> Cloud:
    """One node, and flavors f0, f1, ..."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=policy or small_policy()))
    cloud.apply(NodeAdded(at_us=0, node="n0", capacity=capacity))
    for index, demand in enumerate(demands):
        cloud.apply(FlavorAdded(at_us=0, flavor=f"f{index}", demand=demand))
    return cloud


def start(cloud: Cloud, name: str, market: Market, flavor: str = "f0", at_us: int = 0, lifetime_us: int = 100) -> list:
    events = decide_start(cloud, StartRequest(name, market, flavor, lifetime_us), at_us, None)
    return [cloud.apply(event).event for event in events]


def test_rows_grow_beyond_the_first_ones() -> None:
    cloud = cloud_of(Resources(300), Resources(1), Resources(300))
    for index in range(300):
        start(cloud, f"s{index}", Market.SPOT)
    assert cloud.available_slots("f0") == 0
    events = start(cloud, "big", Market.ON_DEMAND, "f1")
    assert events[-1].victims == tuple(f"s{index}" for index in reversed(range(300)))
    cloud.rollback()
    assert cloud.seq == 0
    assert not cloud.running


def test_who_is_not_needed_is_spared_oldest_first() -> None:
    cloud = cloud_of(Resources(8), Resources(4), Resources(1), Resources(3))
    start(cloud, "old", Market.SPOT, "f0")
    start(cloud, "small", Market.SPOT, "f1")
    start(cloud, "young", Market.SPOT, "f2")
    # Youngest first, 3 + 1 cores make room for 4; neither can be spared. For 3, the youngest alone will do.
    assert cloud.place_on_demand("f0", 0) == ("n0", ("young", "small"))
    assert cloud.place_on_demand("f2", 0) == ("n0", ("young",))


def test_overrunning_instances_go_before_younger_ones() -> None:
    cloud = cloud_of(Resources(2), Resources(1))
    start(cloud, "overrunning", Market.SPOT, lifetime_us=10)
    start(cloud, "young", Market.SPOT, lifetime_us=1000)
    assert cloud.place_on_demand("f0", 10) == ("n0", ("young",))
    assert cloud.place_on_demand("f0", 11) == ("n0", ("overrunning",))


def test_what_goes_first_goes_before_those_who_overrun_and_before_younger_ones() -> None:
    """Nothing was promised to it. Among its like the youngest goes first, whether its time is over or not."""
    cloud = cloud_of(Resources(4), *(Resources(cores) for cores in (1, 2, 3)))
    start(cloud, "overrunning", Market.SPOT, lifetime_us=10)
    for name in ("old.held", "held"):
        (told,) = decide_start(cloud, StartRequest(name, Market.SPOT, "f0", 5), 0, None)
        cloud.apply(replace(told, goes_first=True))
    start(cloud, "young", Market.SPOT, lifetime_us=1000)
    assert cloud.place_on_demand("f0", 3) == ("n0", ("held",))
    assert cloud.place_on_demand("f1", 3) == ("n0", ("held", "old.held"))
    assert cloud.place_on_demand("f2", 3) == ("n0", ("held", "old.held", "young"))
    assert cloud.place_on_demand("f2", 11) == ("n0", ("held", "old.held", "overrunning"))
    assert cloud.clear("n0", (2, 0, 0), 11) == ("held", "old.held")
    assert cloud.displace("f0", 11) == ("n0", ("overrunning",)), "held room is none that overran"
    assert cloud.displace("f0", 9) == (None, ())


def test_many_that_overrun_are_walked_in_order_and_in_little_time() -> None:
    """Sorting them took quadratic time: a hundred times as long as where none overruns."""
    count = 16_000
    none, most = cluster_of(count, 0), cluster_of(count, count - 1)
    for cluster in (none, most, cluster_of(count, count // 3)):
        rows = [naive_row(row, int(cluster.deadline_us[row])) for row in range(count)]
        rows.sort(key=lambda row: youth(row, 1), reverse=True)
        assert spot_rows_by_youth(cluster, 1).tolist() == [int(row.name) for row in rows]
    assert walk_ms(count, count - 1) < 10 * walk_ms(count, 0)


def naive_row(row: int, deadline_us: int) -> NaiveInstance:
    return NaiveInstance(str(row), is_spot=True, demand=(1,), born=row, deadline_us=deadline_us, node=NaiveNode("", ()))


def test_an_uncounted_resource_never_refuses() -> None:
    cloud = cloud_of(Resources(4, 0), Resources(1, 1 << 30))
    assert cloud.available_slots("f0") == 4


def test_a_drained_node_takes_nothing_and_gives_nothing_up() -> None:
    cloud = cloud_of(Resources(2), Resources(1))
    start(cloud, "s", Market.SPOT)
    cloud.apply(NodeDrained(at_us=0, node="n0"))
    assert cloud.available_slots("f0") == 0
    assert isinstance(start(cloud, "o", Market.ON_DEMAND)[-1], InstanceRejected)
    assert "s" in cloud.running


def test_removing_a_node_evicts_its_spot_instances_youngest_first() -> None:
    cloud = cloud_of(Resources(2), Resources(1))
    start(cloud, "a", Market.SPOT)
    start(cloud, "b", Market.SPOT)
    events = decide_node_removal(cloud, "n0", 5)
    assert [event.instance_id for event in events[:-1]] == ["b", "a"]
    assert {event.cause_seq for event in events[:-1]} == {cloud.seq + 3}


def test_stopping_twice_changes_nothing() -> None:
    cloud = cloud_of(Resources(1), Resources(1))
    start(cloud, "a", Market.SPOT)
    cloud.apply(decide_stop(cloud, "a", 1)[0])
    assert decide_stop(cloud, "a", 2) == []


@pytest.mark.parametrize(("clock", "server_us", "present_us"), [("system", 9, 9), ("system", 3, 7), ("external", 9, 7)])
def test_the_present_time_of_a_cloud_never_lies_before_its_log(clock: str, server_us: int, present_us: int) -> None:
    """A server whose clock was set back shows what it decided; an external clock moves with its requests alone."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=7, policy=Policy(clock=Clock(clock))))
    assert cloud.present_us(server_us) == present_us
