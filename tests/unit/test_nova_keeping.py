"""The daemon's looks: what no user and no false notification holds up, and when Nova is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.domain.values import Resources
from app.nova.cloud import OpenStackRefused
from app.nova.deeds import Deeds
from app.nova.figures import NovaFigures
from app.nova.keeping import NovaKeeper, Rhythm
from app.nova.rules.lives import Life
from app.nova.rules.reconciling import NovaChoices
from app.nova.rules.seen import KnownLife, Server, ServerStep, StepKind

ID = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SPOT = Server(ID, "ACTIVE", None, "n", "small", Resources(1), True, LONG_AGO, LONG_AGO, LONG_AGO)
PAYING = replace(SPOT, is_spot=False)
KNOWN = KnownLife(Life(ID, 1), "evicted", True, "n", "small", Resources(1), LONG_AGO)


@dataclass
class World:
    """Nova and Tenure at once. Its one server's metadata are full, as its tags are."""

    listed: list[Server] = field(default_factory=list)
    now: Server | None = None
    known: KnownLife | None = None
    nodes: frozenset[str] = frozenset({"n", "m"})
    is_full: bool = True
    refuses: int = 0
    builds: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    aborted: list[Life] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    observed: list[str] = field(default_factory=list)
    is_at_it: bool = True

    def changed_since(self, _at: datetime) -> list[Server]:
        return self.listed

    def server(self, server: str) -> Server | None:
        self.asked.append(server)
        return self.now

    def newest(self, _server: str) -> KnownLife | None:
        return self.known

    def building(self) -> frozenset[str]:
        return frozenset(self.builds)

    def mark(self, _server: str, marks: Any) -> bool:
        if self.refuses:
            raise OpenStackRefused(self.refuses, "Cannot 'update metadata' while it is in vm_state deleted")
        if self.is_full:
            raise OpenStackRefused(403, "metadata property count exceeds 128")
        self.told.append(dict(marks))
        return True

    def is_at_deletion(self, server: str) -> bool:
        self.asked.append(server)
        return self.is_at_it

    def act(self, server: str, action: str) -> bool:
        self.done.append(f"{action} {server}")
        return True

    def reset(self, _server: str) -> bool:
        return self.now is not None

    def tag(self, _server: str, _tag: str) -> bool:
        raise OpenStackRefused(400, "tags limit 50")

    def delete(self, server: str) -> bool:
        if self.refuses:
            raise OpenStackRefused(self.refuses, "Cannot 'delete' instance while it is in task_state deleting")
        self.done.append(server)
        return self.now is not None

    def abort(self, life: Life) -> None:
        self.aborted.append(life)

    def stop(self, life: Life) -> None:
        self.done.append(life.instance_id)

    confirm = stop

    def observe(self, _life: Life, server: Server) -> None:
        assert server.node is not None
        self.observed.append(server.node)


def keeper_of(world: World) -> NovaKeeper:
    parts: Any = world
    return NovaKeeper(parts, parts, parts, NovaChoices(), Rhythm(), NovaFigures())


def test_full_metadata_delay_no_eviction() -> None:
    world = World([SPOT], SPOT)
    keeper = keeper_of(world)
    keeper._poll()
    world.known = replace(KNOWN, leaves_by=datetime.now(UTC) + timedelta(seconds=3))
    for _ in range(6):  # each look fails to tell the notice, and the next one comes at the deadline all the same
        again_s = keeper._tried(ID)
        assert again_s is not None
        assert 2 < again_s <= 3
    assert world.done == []
    world.known = replace(KNOWN, leaves_by=datetime.now(UTC))
    keeper._tried(ID)
    assert world.done == [ID]


def test_a_server_without_a_promise_is_asked_for_by_itself_before_it_is_ended() -> None:
    world = World([SPOT], None, replace(KNOWN, status="stopped"))
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert world.asked == [ID]
    assert world.done == [], "its user has ended it"
    world.now = SPOT
    keeper._tried(ID)
    assert world.done == [ID]


def test_a_server_that_is_restored_is_deleted_for_good() -> None:
    """A cloud may keep deleted servers for a while, and their owners restore them, again and again."""
    world = World([SPOT], SPOT, replace(KNOWN, status="stopped"))
    keeper = keeper_of(world)
    keeper._poll()
    for _ in range(3):
        keeper._tried(ID)
    assert world.done == [ID, f"forceDelete {ID}", f"forceDelete {ID}"]


@pytest.mark.parametrize("now", [None, replace(PAYING, status="DELETED"), replace(PAYING, node="m")])
def test_what_another_daemon_has_seen_end_or_move_is_not_observed_where_it_was(now: Server | None) -> None:
    """An observation may evict somebody, and this one would be of a server that is not there any more."""
    world = World([PAYING], now, replace(KNOWN, status="stopped", is_spot=False, ended_at=datetime.now(UTC)))
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert world.asked == [ID]
    assert world.observed == ([] if now is None or now.node == "n" else ["m"])


@pytest.mark.parametrize("leaves_by", [None, LONG_AGO])
def test_what_its_user_has_shelved_since_it_was_evicted_is_not_deleted(leaves_by: datetime | None) -> None:
    """The last look at it is some seconds old."""
    shelved = replace(SPOT, status="SHELVED_OFFLOADED", node=None)
    world = World([SPOT], shelved, replace(KNOWN, ended_at=LONG_AGO, leaves_by=leaves_by), is_full=False)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert world.asked == [ID]
    assert world.done == ([] if leaves_by is None else [ID]), "its eviction alone is confirmed"
    assert keeper._figures.steps.labels("delete", "done")._value.get() == 0


def test_what_is_evicted_without_a_notice_is_deleted_at_once() -> None:
    world = World([SPOT], SPOT, replace(KNOWN, ended_at=datetime.now(UTC)), is_full=False)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert (world.asked, world.done) == ([], [ID])


def test_what_is_gone_is_looked_at_first() -> None:
    """Others may have been built in its room, and would make their node larger in the books until it is let go."""
    servers = [replace(PAYING, id=str(uuid4()), status=status) for status in ("ACTIVE", "DELETED") * 20]
    keeper = keeper_of(World(servers))
    keeper._poll()
    gone = {one.id for one in servers if one.status == "DELETED"}
    first = [keeper._agenda.take(0) for _ in gone]
    assert {*first} == gone


@pytest.mark.parametrize(("is_at_it", "done"), [(True, []), (False, [f"forceDelete {ID}"])])
def test_a_deletion_that_takes_seconds_is_asked_about(is_at_it: bool, done: list[str]) -> None:
    now = datetime.now(UTC)
    deleting = replace(SPOT, task="deleting", updated_at=now - timedelta(seconds=8))
    world = World([deleting], deleting, replace(KNOWN, ended_at=now - timedelta(seconds=9)), is_at_it=is_at_it)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert world.asked == [ID]
    assert world.done == done


def test_made_up_notifications_cause_few_looks() -> None:
    world = World([SPOT], None)
    keeper = keeper_of(world)
    for _ in range(5000):
        keeper.heard(str(uuid4()))
    keeper._poll()
    assert keeper._agenda.waiting()[0] <= 101


OUTCOMES = ("done", "refused", "needless")
UNPLACED = replace(SPOT, status="BUILD", task="scheduling", node=None, launched_at=None)


def test_a_server_that_is_deleted_before_it_has_a_host_is_aborted_soon() -> None:
    """Nova's list of changes never names it."""
    begun = datetime.now(UTC) - timedelta(seconds=40)
    world = World([UNPLACED], None, replace(KNOWN, status="running", at=begun), builds=[ID])
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert (world.asked, world.aborted) == ([], []), "it is being built"
    world.listed, world.builds, keeper._builds_at_s = [], [], 0.0
    assert keeper._agenda.take(0) == ID
    keeper._agenda.done(ID)
    assert keeper._agenda.take(0) is None
    keeper._poll()
    assert keeper._agenda.take(0) == ID
    keeper._tried(ID)
    assert world.aborted == [KNOWN.life]


def test_a_server_that_was_built_meanwhile_gets_its_notice() -> None:
    leaves_by = datetime.now(UTC) + timedelta(seconds=60)
    world = World([UNPLACED], SPOT, replace(KNOWN, leaves_by=leaves_by), is_full=False)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert [[*marks] for marks in world.told] == [["tenure:evict_at"]]


def test_a_stubborn_owner_is_put_right_now_and_then() -> None:
    known = replace(KNOWN, status="running", probability=0.05)
    world = World([SPOT], SPOT, known, is_full=False)
    keeper = keeper_of(world)
    keeper._poll()
    for number in range(20):
        world.listed = [replace(SPOT, metadata={"tenure:probability": f"0.{number + 1}9"})]
        keeper._poll()
        keeper._tried(ID)
    assert world.told == [{"tenure:probability": "0.05"}]
    world.known = replace(known, status="evicted", ended_at=LONG_AGO)
    keeper._tried(ID)
    assert world.told[1:] == [{"tenure:probability": "0.05", "tenure:evict_at": "2026-01-01T00:00:00Z"}]
    assert world.done == [ID]


@pytest.mark.parametrize(
    ("status", "now"),
    [(0, None), (409, None), (409, replace(SPOT, task="deleting")), (409, replace(SPOT, status="SOFT_DELETED"))],
)
def test_what_another_daemon_ends_is_not_counted_again(status: int, now: Server | None) -> None:
    world = World([SPOT], now, KNOWN, refuses=status)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert keeper._failures == {}
    counted = {outcome: keeper._figures.steps.labels("delete", outcome)._value.get() for outcome in OUTCOMES}
    assert counted == {"done": 0, "refused": 0, "needless": 1}


def test_a_deletion_that_is_refused_for_another_reason_is_tried_again() -> None:
    world = World([SPOT], SPOT, KNOWN, refuses=409)
    keeper = keeper_of(world)
    keeper._poll()
    keeper._tried(ID)
    assert keeper._failures == {ID: 1}


@pytest.mark.parametrize("kind", [StepKind.MARK, StepKind.RESET])
@pytest.mark.parametrize("now", [None, replace(SPOT, status="DELETED"), SPOT])
def test_what_is_told_of_a_server_that_has_gone_is_needless(kind: StepKind, now: Server | None) -> None:
    """Nova answers 409 to metadata of a server that is being deleted, and 404 to a reset of one that is gone."""
    is_gone = now is None or now.status == "DELETED"
    world: Any = World([], now if kind is StepKind.MARK or not is_gone else None, is_full=False)
    world.refuses = 409 if is_gone and kind is StepKind.MARK else 0
    deeds = Deeds(world, world, lambda: None)
    assert deeds.do(ServerStep(kind, "it must be", marks={"tenure:epoch": "1"}), SPOT.id, SPOT) is not is_gone


def test_metadata_that_a_running_server_refuses_is_an_error() -> None:
    world: Any = World([], SPOT, refuses=409)
    with pytest.raises(OpenStackRefused):
        Deeds(world, world, lambda: None).do(ServerStep(StepKind.MARK, "it must be"), SPOT.id, SPOT)
