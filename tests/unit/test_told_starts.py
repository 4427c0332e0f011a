"""Starts that tell more, observations and changes of nodes are decided as the naive engine decides them."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from linear_quotes import ProportionalQuotes
from oracles.engine import NaiveCluster, NaiveInstance
from oracles.histories import RandomCloud
from oracles.replay import NaiveHistory
from repeats import seeds
from test_engine import assert_same_state, small_policy

from app.admission.decide import decide_start
from app.admission.extend import decide_extension
from app.admission.observe import decide_abort
from app.domain.budgets import BudgetUnit
from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    answers_request,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import HOUR_US
from app.domain.values import (
    Clock,
    EvictionPolicy,
    Guarantee,
    Market,
    NodeStatus,
    Placement,
    Policy,
    Rejection,
    Resources,
)
from app.engine.cloud import Cloud
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

OD, SPOT = Market.ON_DEMAND, Market.SPOT


def told_cloud(seed: int, eviction_policy: EvictionPolicy, placement: Placement = Placement.FIRST_FIT) -> RandomCloud:
    world = RandomCloud(Random(seed), small_policy(eviction_policy, placement, displaces=seed % 2 == 1), told=True)
    world.open()
    return world


def naive_state(world: RandomCloud, allowed: tuple[str, ...] = ()) -> NaiveCluster:
    """The naive cluster; nodes that are not allowed count as closed."""
    naive = NaiveHistory(world.log, world.policy, world.now_us + 1).opening(world.now_us + 1)
    for node in naive.nodes:
        node.is_open = node.is_open and (not allowed or node.name in allowed)
    return naive


@pytest.mark.parametrize("placement", [*Placement])
@pytest.mark.parametrize("eviction_policy", [*EvictionPolicy])
@pytest.mark.parametrize("seed", seeds(10))
def test_a_start_takes_what_the_oracle_takes_of_the_allowed_nodes(
    seed: int, eviction_policy: EvictionPolicy, placement: Placement
) -> None:
    world = told_cloud(seed, eviction_policy, placement)
    for _ in range(150):
        world.step()
        assert_same_state(world.cloud, naive_state(world))
        allowed, market = world.some_nodes(), world.random.choice([OD, SPOT])
        flavor = world.random.choice([*world.cloud.flavors])
        count = world.random.choice([1, 1, 3]) if market is SPOT else 1
        request = StartRequest("next", market, flavor, 10, count=count, nodes=allowed)
        before = world.cloud.digest()
        decision = decide_start(world.cloud, request, world.now_us, None)[-1]
        assert world.cloud.digest() == before, "nothing of the restriction is left"
        expected = naive_start(naive_state(world, allowed), world, request)
        found = (decision.places, decision.victims) if isinstance(decision, InstanceStarted) else None
        assert found == expected
        told = any(one.status is NodeStatus.OPEN and one.name not in allowed for one in world.cloud.nodes.values())
        known = tuple(name for name in allowed if name in world.cloud.nodes) or ("unknown",)
        assert decision.allowed == (known if told else ())  # type: ignore[union-attr] # a start is decided


def naive_start(
    naive: NaiveCluster, world: RandomCloud, request: StartRequest
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The nodes and the victims of a start."""
    demand, now_us = tuple(world.cloud.flavors[request.flavor].resources), world.now_us
    one = NaiveInstance("next", request.market is SPOT, demand, 1 << 40, 0, naive.nodes[0], count=request.count)
    if one.is_spot:
        victims = naive.start_spot(one, now_us, displaces=world.policy.displaces_overrunning)
    else:
        victims = naive.start_on_demand(one, now_us, world.policy.eviction_policy.value)
    return None if victims is None else (tuple(node.name for node in one.nodes), tuple(victims))


@pytest.mark.parametrize("eviction_policy", [*EvictionPolicy])
@pytest.mark.parametrize("seed", seeds(10))
def test_the_log_of_what_is_told_is_clean_and_folds_to_the_same_state(
    seed: int, eviction_policy: EvictionPolicy
) -> None:
    world = told_cloud(seed, eviction_policy, [*Placement][seed % 2])
    for _ in range(300):
        world.step()
    file = io.StringIO()
    writer = LogWriter(file)
    for item in world.log:
        writer.write(item)
    found = audit([row for _, row in read_rows(file.getvalue().splitlines(), "log")], [])
    assert found.finding is None
    again = Cloud()
    again.apply_recorded(world.log)
    assert again.digest() == world.cloud.digest()


def test_a_start_is_refused_where_no_node_is_known() -> None:
    world = told_cloud(1, EvictionPolicy.YJF)
    for market in (OD, SPOT):
        request = StartRequest("a", market, next(iter(world.cloud.flavors)), 10, nodes=("unknown",))
        (decision,) = decide_start(world.cloud, request, world.now_us, None)
        assert isinstance(decision, InstanceRejected)
        assert (decision.reason, decision.allowed) == (Rejection.NO_CAPACITY, ("unknown",))


def test_a_start_tells_only_the_nodes_that_there_are() -> None:
    world = told_cloud(1, EvictionPolicy.YJF)
    unknown = tuple(f"made-up-{number}" for number in range(999))
    for number in range(9):
        world.cloud.apply(NodeAdded(at_us=0, node=f"more-{number}", capacity=Resources(9)))
    first = "more-4"
    for market in (OD, SPOT):
        for name in world.cloud.flavors:
            request = StartRequest("a", market, name, 10, nodes=(*unknown, first, first, *unknown[:3]))
            decision = decide_start(world.cloud, request, world.now_us, None)[-1]
            shorter = decide_start(world.cloud, replace(request, nodes=(first,)), world.now_us, None)[-1]
            assert decision == shorter
            assert decision.allowed == (first,)  # type: ignore[union-attr] # a start is decided
            (*_, decision) = decide_start(world.cloud, replace(request, nodes=unknown), world.now_us, None)
            assert decision.allowed == unknown[:1]  # type: ignore[union-attr] # a start is decided


def test_a_repeated_start_may_name_other_nodes_but_no_other_project() -> None:
    world = told_cloud(1, EvictionPolicy.YJF)
    flavor, node = next(iter(world.cloud.flavors)), next(iter(world.cloud.nodes))
    asked = {"flavor": flavor, "market": OD, "project": "p", "user": "u"}
    decision = decide_start(world.cloud, StartRequest("a", **asked, nodes=(node,)), world.now_us, None)[-1]
    assert answers_request(decision, StartRequest("a", **asked), external=False)  # type: ignore[arg-type]
    for other in ({"project": "q"}, {"user": None}):
        assert not answers_request(decision, StartRequest("a", **(asked | other)), external=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("extends", [False, True])
def test_what_never_ran_leaves_no_trace_in_any_account(extends: bool) -> None:
    """Of its class, its book, its sections and its owner; that it was asked for still counts."""
    policy = Policy(guarantee=Guarantee.STRATIFIED, clock=Clock.EXTERNAL, warm_up_us=0, table_max_age_us=10**18)
    for unit in BudgetUnit:
        cloud = Cloud()
        for event in (
            CloudCreated(at_us=0, policy=replace(policy, budget=unit)),
            NodeAdded(at_us=0, node="n", capacity=Resources(64)),
            FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        ):
            cloud.apply(event)
        quotes: Any = ProportionalQuotes(1000 * HOUR_US)

        def start(name: str, at_us: int, cloud: Cloud = cloud, quotes: Any = quotes) -> None:
            request = StartRequest(name, SPOT, "c1", HOUR_US, 1 / 64, at_us, owner="o")
            for event in decide_start(cloud, request, at_us, quotes):
                assert isinstance(cloud.apply(event).event, InstanceStarted)

        start("stays", 1)
        cloud.commit()
        before = cloud.facts()
        start("aborted", 2)
        if extends:
            longer = decide_extension(cloud, ExtendRequest("aborted", 2 * HOUR_US), 3, quotes)
            assert [isinstance(cloud.apply(one).event, InstanceExtended) for one in longer] == [True]
        digest = cloud.digest()
        with cloud.tried():
            for event in decide_abort(cloud, "aborted", 4):
                cloud.apply(event)
            after = cloud.facts()
        assert cloud.digest() == digest, "it is undone without a trace"
        for part in ("classes", "outcomes", "owners"):
            assert dict_of(getattr(after, part)) == pytest.approx(dict_of(getattr(before, part)), abs=1e-12)
        assert dict_of([(one[:2], one[2]) for one in after.books]) == pytest.approx(
            dict_of([(one[:2], one[2]) for one in before.books]), abs=1e-12
        )
        assert after.counts == before.counts._replace(spot_requested=2)
        assert after.running == before.running


def dict_of(accounts: Any) -> dict[Any, float]:
    """The figures of accounts, each under its own name; an account of nothing is none."""
    return {(key, name): value for key, one in accounts for name, value in one._asdict().items() if value}
