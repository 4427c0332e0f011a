"""The calibrated estimate: what must hold of it in every state, and figures worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.estimate import estimate
from oracles.histories import RandomCloud

from app.domain.events import CloudCreated, FlavorAdded, InstanceExtended, InstanceStarted, InstanceStopped, NodeAdded
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, Guarantee, Market, NodeStatus, Policy, Resources
from app.engine.cloud import Cloud
from app.engine.intervals import EDGES_US, INTERVAL_COUNT
from app.forecast.calibrated import LEAST, eviction_probability, longest_lifetime
from app.forecast.rise import ROOM_COUNT, Rises

LIFETIMES_US = [0, 1, 1_000_000, *(edge + more for edge in EDGES_US for more in (-1, 0, 1, edge // 3)), 1 << 54]


def random_rises(random: Random) -> Rises:
    """Curves that fall with the room and rise with time, for cores and memory."""
    rooms, counts = np.zeros((3, ROOM_COUNT), np.int64), np.zeros(3, np.int64)
    shares, heights = np.zeros((2, 3, ROOM_COUNT, INTERVAL_COUNT))
    for r, largest in enumerate((random.choice([4, 40]), random.choice([0, 8, 60]))):
        counts[r] = min(ROOM_COUNT, largest + 1) if largest else 0
        if counts[r]:
            rooms[r] = np.pad(np.arange(counts[r]), (0, ROOM_COUNT - counts[r]), "edge")
            shares[r], heights[r] = random_shares(random), random_shares(random)
    seen_us = random.choice([DAY_US, 30 * DAY_US, 365 * DAY_US])
    activity = np.array([random.choice([-1.0, 0.0, 2.0]) for _ in range(3)])
    spreads = np.array([random.choice([0.0, 0.7, 9.0]) for _ in range(3)])
    level = random.choice([0.0, -3.0, 0.5, 4.0])
    found = Rises(rooms, counts, shares, seen_us, level, spreads=spreads, activity=activity)
    return found._replace(heights=heights) if random.random() < 0.75 else found


def random_shares(random: Random) -> np.ndarray:
    some = np.array([[random.random() for _ in range(INTERVAL_COUNT)] for _ in range(ROOM_COUNT)])
    return np.sort(np.sort(some ** random.choice([1, 4, 30]), axis=1), axis=0)[::-1]


def random_state(seed: int, steps: int) -> tuple[RandomCloud, Rises]:
    random = Random(seed)
    state = RandomCloud(random, Policy(guarantee=Guarantee.NONE))
    state.open()
    for _ in range(steps):
        state.step()
        state.now_us += random.choice([0, HOUR_US // 7])
    return state, random_rises(random)


def estimates(cloud: Cloud, rises: Rises, now_us: int) -> dict[str, list[float]]:
    """By flavor, at every lifetime."""
    found = {}
    for flavor in cloud.flavors:
        outlook = cloud.outlook(flavor, now_us)
        found[flavor] = [eviction_probability(rises, outlook, lifetime_us) for lifetime_us in LIFETIMES_US]
    return found


states = given(seed=st.integers(0, 1_000_000), steps=st.integers(0, 60))


@states
@settings(max_examples=80, deadline=None)
def test_longer_is_never_safer_and_nothing_is_certain(seed: int, steps: int) -> None:
    state, rises = random_state(seed, steps)
    for row in estimates(state.cloud, rises, state.now_us).values():
        assert all(LEAST <= one <= 1 - LEAST for one in row)
        assert row == sorted(row)


@states
@settings(max_examples=60, deadline=None)
def test_every_estimate_is_the_oracles(seed: int, steps: int) -> None:
    """With tables of every age: without spreads, without heights, and with both."""
    state, rises = random_state(seed, steps)
    for kind in (rises, rises._replace(spreads=np.zeros(3)), rises._replace(spreads=np.full(3, 2.5))):
        for flavor, row in estimates(state.cloud, kind, state.now_us).items():
            outlook = state.cloud.outlook(flavor, state.now_us)
            assert row == pytest.approx([estimate(kind, outlook, us) for us in LIFETIMES_US], rel=1e-9)


def stop(state: RandomCloud, market: Market) -> None:
    """On an open node: where none is placed, no room comes of it."""
    is_open = {name for name, node in state.cloud.nodes.items() if node.status is NodeStatus.OPEN}
    running = [one.instance_id for one in state.cloud.running.values() if one.market is market and one.node in is_open]
    if running:
        state.apply([InstanceStopped(at_us=state.now_us, instance_id=state.random.choice(running))])


def stop_spot(state: RandomCloud) -> None:
    stop(state, Market.SPOT)


def stop_on_demand(state: RandomCloud) -> None:
    stop(state, Market.ON_DEMAND)


@pytest.mark.parametrize("make_room", [stop_spot, stop_on_demand, RandomCloud.add_node])
@states
@settings(max_examples=60, deadline=None)
def test_more_room_never_promises_less(make_room: Callable[[RandomCloud], None], seed: int, steps: int) -> None:
    state, rises = random_state(seed, steps)
    before = estimates(state.cloud, rises, state.now_us)
    make_room(state)
    after = estimates(state.cloud, rises, state.now_us)
    for flavor, row in before.items():
        assert all(now <= then + 1e-15 for then, now in zip(row, after[flavor], strict=True))


@states
@settings(max_examples=30, deadline=None)
def test_the_longest_lifetime_is_where_the_estimate_passes_the_probability(seed: int, steps: int) -> None:
    state, rises = random_state(seed, steps)
    probability = state.random.choice([1e-5, 0.01, 0.1, 0.5, 0.9999])
    for flavor in state.cloud.flavors:
        outlook = state.cloud.outlook(flavor, state.now_us)
        lifetime_us = longest_lifetime(rises, outlook, probability)
        if lifetime_us < 1 << 55:
            assert eviction_probability(rises, outlook, lifetime_us) > probability
        if lifetime_us:
            assert eviction_probability(rises, outlook, lifetime_us - 1) <= probability


def two_nodes() -> Cloud:
    """Two nodes of 16 cores: 4 on-demand after a peak of 12, and spot instances of 4 that end in 1 h and in 30 h."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    for name in ("a", "b"):
        cloud.apply(NodeAdded(at_us=0, node=name, capacity=Resources(16)))
    cloud.apply(FlavorAdded(at_us=0, flavor="f", demand=Resources(4)))
    for name in ("o1", "o2", "o3"):
        cloud.apply(InstanceStarted(at_us=0, instance_id=name, market=Market.ON_DEMAND, flavor="f", node="a"))
    for name in ("o1", "o2"):
        cloud.apply(InstanceStopped(at_us=0, instance_id=name))
    for name, hours in (("s1", 1), ("s2", 30)):
        cloud.apply(
            InstanceStarted(
                at_us=0, instance_id=name, market=Market.SPOT, flavor="f", node="b", lifetime_us=hours * HOUR_US
            )
        )
    return cloud


def test_an_outlook_worked_out_by_hand() -> None:
    outlook = two_nodes().outlook("f", 0)
    assert outlook.slots == 3 + 2
    assert outlook.free[0] == 32 - 4 - 8 - 4
    assert outlook.capacity[0] == 32
    assert outlook.size[0] == 16
    assert outlook.load[0] == 4
    assert outlook.excess[0] == 8
    # Node a has 12 free and b 8: one half each. On a the start leaves 8, which is still a half.
    assert outlook.halves[0] == 2
    # The first ends after 60 minutes: intervals begin at 0, 10, 20, 40, 80, ... minutes.
    assert outlook.released[0].tolist() == [0] * 4 + [4] * 5 + [8] * 5


def test_the_room_of_an_instance_that_was_extended_is_not_expected_back() -> None:
    """It may be extended again, and others would have been admitted to that room."""
    cloud = two_nodes()
    extended = InstanceExtended(
        at_us=0,
        instance_id="s1",
        lifetime_us=2 * HOUR_US,
        former_lifetime_us=HOUR_US,
        deadline_us=2 * HOUR_US,
        basis=Basis(1),
    )
    cloud.apply(extended)
    outlook = cloud.outlook("f", 0)
    assert outlook.released[0].tolist() == [0] * 9 + [4] * 5
    assert outlook.free[0] == 32 - 4 - 8 - 4
    later = cloud.outlook("f", 2 * HOUR_US + 1)
    assert later.free[0] == 20, "once it overruns its room counts, like that of any other"
    for other in (cloud.outlooks_now(["f"], 0)()["f"], Cloud.of_facts(cloud.facts()).outlook("f", 0)):
        assert other.released.tolist() == outlook.released.tolist()


def test_an_overrunning_instance_gives_its_room_at_once() -> None:
    cloud = two_nodes()
    assert cloud.outlook("f", HOUR_US).free[0] == 16
    later = cloud.outlook("f", HOUR_US + 1)
    assert later.free[0] == 20
    assert later.slots == 5
    assert later.released[0, :8].tolist() == [0] * 8


def test_an_estimate_worked_out_by_hand() -> None:
    """At the end of an interval, after a history of 30 days, with G = 0.2 wherever less than 17 cores are free."""
    outlook = two_nodes().outlook("f", 0)
    rooms = np.pad(np.arange(33), (0, ROOM_COUNT - 33), "edge")
    shares = np.where(rooms < 17, 0.2, 0.0)[:, None] * np.ones(INTERVAL_COUNT)
    nothing = np.zeros_like(rooms)
    rises = Rises(
        np.array([rooms, nothing, nothing]), np.array([33, 0, 0]), np.array([shares, shares, shares]), 30 * DAY_US
    )
    # With the same G the windows of six hours count, of which there are more than of 21 hours.
    seen, lifetime, windows = 30 * 24.0, 128 / 6, 30 * 24 / 6
    rise = (windows * 0.2 + 0.03) / (windows + 1)
    score = -2.599 + 0.41 * log(rise / (1 - rise)) + 0.149 * log(lifetime / (seen + lifetime))
    score += 0.477 * log(lifetime + 1 / 12) - 0.079 * log(17 / 32) - 1.28 * (8 / 32) + 0.777 * 4 / 16
    score += -0.58 * log(1 + 2) + 2.19 / 5
    found = eviction_probability(rises, outlook, EDGES_US[7])
    assert found == pytest.approx(max(1 / (1 + exp(-score)), LEAST), rel=1e-9)
    raised = eviction_probability(rises._replace(level=1.25), outlook, EDGES_US[7])
    assert raised == pytest.approx(1 / (1 + exp(-score - 1.25)), rel=1e-9)


@pytest.mark.parametrize(("free_from", "chance"), [(17, 0.2), (16, None)])
def test_an_estimate_is_the_mean_of_weights_and_records(free_from: int, chance: float | None) -> None:
    """In the state of the last test 16 cores are free after the start, 8 beyond the highest load; the spread is 4."""
    outlook = two_nodes().outlook("f", 0)
    rooms = np.pad(np.arange(33), (0, ROOM_COUNT - 33), "edge")
    shares = np.array([np.where(rooms < free_from, 0.2, 0.0)[:, None] * np.ones(INTERVAL_COUNT)] * 3)
    old = Rises(np.array([rooms] * 3), np.array([33, 0, 0]), shares, 30 * DAY_US)
    lifetime_h = EDGES_US[7] / HOUR_US
    record = lifetime_h / (30 * 24 + lifetime_h) * exp(-8 / (1.5 * 4))
    weighed = eviction_probability(old, outlook, EDGES_US[7])
    mean = (weighed * (chance or record)) ** 0.5
    told = old._replace(spreads=np.array([4.0, 0.0, 0.0]))
    assert eviction_probability(told, outlook, EDGES_US[7]) == pytest.approx(mean, rel=1e-9)
    odds = mean / (1 - mean) * exp(-0.5)
    raised = eviction_probability(told._replace(level=-0.5), outlook, EDGES_US[7])
    assert raised == pytest.approx(odds / (1 + odds), rel=1e-9)
    quiet = eviction_probability(told._replace(activity=np.array([-1.0, 9.0, 9.0])), outlook, EDGES_US[7])
    assert quiet == pytest.approx(raised, rel=1e-9)


def test_a_rise_counts_near_and_a_height_far() -> None:
    """In the same state 16 cores of room are above a load of 4, so the height is 20.

    Past loads rose by more than the room in 2 of 100 windows, and lay above the height in 6.
    """
    outlook = two_nodes().outlook("f", 0)
    rooms = np.pad(np.arange(33), (0, ROOM_COUNT - 33), "edge")
    ones = np.ones(INTERVAL_COUNT)
    shares = np.array([np.where(rooms < 17, 0.02, 0.0)[:, None] * ones] * 3)
    heights = np.array([np.where(rooms < 24, 0.06, 0.0)[:, None] * ones] * 3)
    rises = Rises(np.array([rooms] * 3), np.array([33, 0, 0]), shares, 30 * DAY_US, spreads=np.array([4.0, 0.0, 0.0]))
    weighed = eviction_probability(rises._replace(spreads=np.zeros(3)), outlook, EDGES_US[1])
    near = exp(-EDGES_US[0] / DAY_US)
    repeated = near * 0.02 + (1 - near) * 0.06
    unseen = EDGES_US[1] / (30 * DAY_US + EDGES_US[1])
    chance = 1 - (1 - repeated) * (1 - unseen * exp(-8 / (1.5 * 4)))
    mean = (weighed * chance) ** 0.5
    stretched = (mean / (1 - mean)) ** 1.3 * (0.03 / 0.97) ** -0.3
    found = eviction_probability(rises._replace(heights=heights), outlook, EDGES_US[1])
    assert mean < 0.03
    assert found == pytest.approx(stretched / (1 + stretched), rel=1e-9)


def test_without_a_slot_nothing_is_promised() -> None:
    cloud = two_nodes()
    cloud.apply(FlavorAdded(at_us=0, flavor="g", demand=Resources(17)))
    outlook, rises = cloud.outlook("g", 0), random_rises(Random(1))
    assert eviction_probability(rises, outlook, 1) == 1 - LEAST
    assert longest_lifetime(rises, outlook, 0.5) == 0


def test_outlooks_of_a_moment_stay_what_they_were() -> None:
    cloud = two_nodes()
    before = cloud.outlook("f", 0)
    later = cloud.outlooks_now(["f"], 0)
    cloud.apply(
        InstanceStarted(
            at_us=0,
            instance_id="more",
            market=Market.ON_DEMAND,
            flavor="f",
            node=next(iter(cloud.nodes)),
            lifetime_us=None,
        )
    )
    cloud.apply(NodeAdded(at_us=0, node="more", capacity=Resources(64)))
    assert not np.array_equal(cloud.outlook("f", 0).free, before.free)
    assert all(map(np.array_equal, later()["f"], before))
