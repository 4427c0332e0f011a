"""Tenure's side of the daemon, on a real service: lives, sizes and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest
from api_service import TOKEN, Service, running_service

from app.domain.values import Resources
from app.nova.books import TenureSide
from app.nova.rules.lives import Life
from app.nova.rules.nodes import NodeFacts, NodeStep, NodeStepKind
from app.nova.rules.reconciling import NovaChoices, ViewTimes, decide
from app.nova.rules.seen import Server
from tenure_client import Market, TenureClient

_names = count(1)
SMALL = Resources(1, 512, 1)


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url) as found:
        yield found


@pytest.fixture
def client(service: Service) -> Iterator[TenureClient]:
    with TenureClient(service.url, TOKEN) as found:
        yield found


@pytest.fixture
def cloud(client: TenureClient) -> str:
    name = f"nova-{next(_names)}"
    client.create_cloud(name, {"guarantee": "none"})
    return name


@pytest.fixture
def side(client: TenureClient, cloud: str) -> TenureSide:
    found = TenureSide(client, client, cloud)
    found.change_node(NodeStep(NodeStepKind.ADD, "fake1", Resources(4, 8192, 100)))
    found.flavor("small", SMALL)
    return found


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def start(client: TenureClient, cloud: str, number: int, market: Market = Market.SPOT) -> None:
    lifetime = {"lifetime_s": 3600.0} if market is Market.SPOT else {}
    assert client.start(cloud, uuid(number), market, "small", **lifetime).accepted


def seen(number: int, **changed: object) -> Server:
    known = datetime.now(UTC)
    values = {"status": "ACTIVE", "task": None, "node": "fake1", "plain_flavor": "small", "demand": SMALL}
    times = {"created_at": known, "updated_at": known, "launched_at": known}
    return Server(uuid(number), is_spot=False, **{**values, **times, **changed})  # type: ignore[arg-type]


def test_the_newest_life_is_found(client: TenureClient, cloud: str, side: TenureSide) -> None:
    assert side.newest(uuid(1)) is None
    start(client, cloud, 1)
    client.start(cloud, "no-server", Market.ON_DEMAND, "small")
    known = side.newest(uuid(1))
    assert known is not None
    assert (known.life, known.status, known.is_spot, known.node, known.demand) == (
        Life(uuid(1), 1), "running", True, "fake1", SMALL,
    )  # fmt: skip
    assert (known.deadline - known.at).total_seconds() == 3600  # type: ignore[operator]
    assert side.running() == {uuid(1): known}
    side.stop(known.life)
    side.stop(known.life)
    assert side.newest(uuid(1)).status == "stopped"  # type: ignore[union-attr]
    side.observe(known.life.next, seen(1))
    assert side.newest(uuid(1)).life.number == 2  # type: ignore[union-attr]
    assert side.running()[uuid(1)].is_observed


def test_an_evicted_server_is_known_by_its_deadline_and_confirmed(
    client: TenureClient, cloud: str, side: TenureSide
) -> None:
    client.change_policy(cloud, {"grace_s": 60})
    for number in range(4):
        start(client, cloud, number)
    start(client, cloud, 5, Market.ON_DEMAND)
    ((victim, deadline),) = side.leaving().items()
    known = side.newest(victim)
    assert known is not None
    assert (known.status, known.leaves_by) == ("evicted", deadline)
    verdict = decide(None, known, frozenset({"fake1"}), NovaChoices(), ViewTimes(known.at, known.at))
    assert [(step.kind, step.life) for step in verdict.steps] == [("confirm", known.life)]
    side.confirm(known.life)
    side.confirm(known.life)
    assert side.leaving() == {}
    assert side.newest(victim).leaves_by is None  # type: ignore[union-attr]


def test_what_never_ran_does_not_count(client: TenureClient, cloud: str, side: TenureSide) -> None:
    start(client, cloud, 1)
    side.abort(Life(uuid(1), 1))
    side.abort(Life(uuid(1), 1))
    assert client.instance(cloud, uuid(1)).aborted


def test_sizes_have_names_of_their_own(client: TenureClient, cloud: str, side: TenureSide) -> None:
    assert side.flavor("small", SMALL) == "small"
    other = TenureSide(client, client, cloud)
    assert other.flavor("small", Resources(2, 512, 1)) == "small--2"
    assert side.flavor("small", Resources(2, 512, 1)) == "small--2"
    assert side.flavor("small", Resources(3, 512, 1)) == "small--3"
    assert [one.name for one in client.flavors(cloud)] == ["small", "small--2", "small--3"]


def test_nodes_are_changed(client: TenureClient, cloud: str, side: TenureSide) -> None:
    side.change_node(NodeStep(NodeStepKind.ADD, "fake2", Resources(8, 1024, 0)))
    side.change_node(NodeStep(NodeStepKind.DRAIN, "fake2"))
    side.change_node(NodeStep(NodeStepKind.RESIZE, "fake1", Resources(6, 8192, 100)))
    assert side.read_nodes() == {
        "fake1": NodeFacts(Resources(6, 8192, 100), is_open=True),
        "fake2": NodeFacts(Resources(8, 1024, 0), is_open=False),
    }
    assert side.nodes == {"fake1", "fake2"}
    side.change_node(NodeStep(NodeStepKind.OPEN, "fake2"))
    side.change_node(NodeStep(NodeStepKind.REMOVE, "fake1"))
    assert side.read_nodes() == {"fake2": NodeFacts(Resources(8, 1024, 0), is_open=True)}


def test_an_observation_makes_room_for_itself(client: TenureClient, cloud: str, side: TenureSide) -> None:
    for number in range(4):
        start(client, cloud, number)
    side.observe(Life(uuid(9), 1), seen(9, demand=Resources(2, 512, 1), plain_flavor="two"))
    assert side.running().keys() == {uuid(0), uuid(1), uuid(9)}
    assert client.instance(cloud, uuid(9)).flavor == "two"
