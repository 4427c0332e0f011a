"""The daemon's nodes: when one that is missing goes, and how one that is full takes a server all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.values import Resources
from app.nova import syncing
from app.nova.books import TenureSide, _Seen
from app.nova.cloud import Provider
from app.nova.rules.lives import Life
from app.nova.rules.nodes import NodeFacts, NodeStepKind
from tenure_client import Conflict, NotFound

SIZE = Resources(10, 8192, 0)
SERVER = Life("3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11", 1)


class Sides:
    """Both sides of the nodes `a` and `b`, of which `b` may be missing in Nova, and in Placement as well."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.in_nova = self.in_placement = True
        self.steps: list[tuple[float, str, str]] = []
        self.known = {name: NodeFacts(SIZE, is_open=True) for name in ("a", "b")}

    def hypervisors(self) -> dict[str, bool]:
        return dict.fromkeys(("a", "b") if self.in_nova else ("a",), True)

    def providers(self, _trait: str) -> list[Provider]:
        return [Provider(name, name, 1) for name in (("a", "b") if self.in_placement else ("a",))]

    def capacity(self, _provider: Provider) -> Resources:
        return SIZE

    def read_nodes(self) -> dict[str, NodeFacts]:
        return dict(self.known)

    def change_node(self, step: Any) -> None:
        self.steps.append((self.clock(), str(step.kind), step.node))
        if step.kind is NodeStepKind.REMOVE:
            del self.known[step.node]


@pytest.mark.parametrize(("in_placement", "gone_at_s"), [(False, 3.0), (True, 30.0)])
def test_a_node_goes_soon_if_placement_has_lost_it_too(
    monkeypatch: pytest.MonkeyPatch, in_placement: bool, gone_at_s: float
) -> None:
    at = [0.0]
    monkeypatch.setattr(syncing, "monotonic", lambda: at[0])
    sides = Sides(lambda: at[0])
    nodes = syncing.Syncing(sides, sides, "TRAIT")  # type: ignore[arg-type]
    assert nodes.nodes() is None
    sides.in_nova, sides.in_placement = False, in_placement
    assert nodes.nodes() == gone_at_s
    at[0] = gone_at_s - 1
    assert nodes.nodes() == 1
    assert sides.steps == []
    at[0] = gone_at_s
    assert nodes.nodes() is None
    assert sides.steps == [(gone_at_s, "remove", "b")]


def test_a_node_that_is_back_was_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [0.0]
    monkeypatch.setattr(syncing, "monotonic", lambda: at[0])
    sides = Sides(lambda: at[0])
    nodes = syncing.Syncing(sides, sides, "TRAIT")  # type: ignore[arg-type]
    for in_nova in (False, True, False):
        sides.in_nova = sides.in_placement = in_nova
        nodes.nodes()
        at[0] += 2.5
    assert sides.steps == []


class FullNode:
    """A cloud of Tenure with one node of ten cores, of which `free` are free. It keeps what it is asked for."""

    def __init__(self, free: int, *, is_open: bool = True) -> None:
        self.free, self.is_open, self.asked = free, is_open, list[tuple[Any, ...]]()
        self.cores = 10

    def move(self, _cloud: str, instance: str, node: str) -> None:
        self.asked.append(("move", instance, node))
        if not self.is_open:
            raise Conflict(409, "preemptible.move.drained", "drained")
        if self.free < 2:
            raise Conflict(409, "preemptible.move.no_room", "no room")

    def open_node(self, _cloud: str, node: str) -> None:
        self.asked.append(("open", node))
        self.is_open = True

    def resize_node(self, _cloud: str, node: str, cores: int, memory_mib: int, disk_gib: int) -> None:
        self.asked.append(("resize", node, cores, memory_mib, disk_gib))
        self.free += cores - self.cores
        self.cores = cores

    def node(self, _cloud: str, _name: str) -> SimpleNamespace:
        free = SimpleNamespace(cores=self.free, memory_mib=4096, disk_gib=0)
        return SimpleNamespace(free=free, capacity=SimpleNamespace(cores=self.cores, memory_mib=8192, disk_gib=0))

    def instance(self, _cloud: str, _instance: str) -> SimpleNamespace:
        return SimpleNamespace(flavor="small")

    def flavors(self, _cloud: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="small", cores=2, memory_mib=1024, disk_gib=1)]


def moved(cloud: FullNode) -> tuple[bool, list[tuple[Any, ...]]]:
    is_changed = TenureSide(cloud, cloud, "north").move(SERVER, "n")  # type: ignore[arg-type]
    return is_changed, [one for one in cloud.asked if one[0] != "move"]


def test_a_full_node_is_made_as_much_larger_as_a_forced_server_needs() -> None:
    assert moved(FullNode(free=2)) == (False, [])
    assert moved(FullNode(free=1)) == (True, [("resize", "n", 11, 8192, 0)])
    assert moved(FullNode(free=0)) == (True, [("resize", "n", 12, 8192, 0)])


def test_a_drained_node_is_opened_for_a_forced_server() -> None:
    assert moved(FullNode(free=4, is_open=False)) == (True, [("open", "n")])


def test_a_move_that_is_refused_for_another_reason_stays_refused() -> None:
    cloud = FullNode(free=4)
    cloud.move = _ended  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        moved(cloud)
    assert cloud.asked == []


def _ended(*_: object) -> None:
    raise Conflict(409, "preemptible.move.ended", "ended")


class PutBack:
    """A cloud of Tenure that knows these instances, all of them stopped but the last."""

    def __init__(self, *known: str) -> None:
        self.known = known

    def instance(self, _cloud: str, instance: str) -> SimpleNamespace:
        if instance not in self.known:
            raise NotFound(404, "preemptible.instance.not_found", "unknown")
        runs = instance == self.known[-1]
        more = {"node": "n", "lifetime_s": None, "quote": None, "ended_at": None, "observed": False}
        status = "running" if runs else "stopped"
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return SimpleNamespace(id=instance, status=status, market="on_demand", flavor="small", at=at, **more)

    def flavors(self, _cloud: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="small", cores=2, memory_mib=1024, disk_gib=1)]


def test_a_log_that_was_put_back_knows_fewer_lives() -> None:
    """The number of a life that was remembered is none then."""
    cloud = PutBack(SERVER.server, SERVER.next.instance_id, SERVER.next.next.instance_id)
    books = TenureSide(cloud, cloud, "north")  # type: ignore[arg-type]
    first = books.newest(SERVER.server)
    assert first is not None
    assert first.life.number == 3
    books._remember(SERVER.server, _Seen(first.life.number, first.life.number))
    cloud.known = (SERVER.server,)
    again = books.newest(SERVER.server)
    assert again is not None
    assert (again.life, again.status) == (SERVER, "running")
