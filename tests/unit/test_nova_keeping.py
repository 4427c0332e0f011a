"""The daemon's looks: what no user and no false notification holds up, and what is ended after asking again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from app.domain.values import Resources
from app.nova.cloud import OpenStackRefused
from app.nova.figures import NovaFigures
from app.nova.keeping import NovaKeeper, Rhythm
from app.nova.rules.lives import Life
from app.nova.rules.reconciling import NovaChoices
from app.nova.rules.seen import KnownLife, Server

ID = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SPOT = Server(ID, "ACTIVE", None, "n", "small", Resources(1), True, LONG_AGO, LONG_AGO, LONG_AGO)
KNOWN = KnownLife(Life(ID, 1), "evicted", True, "n", "small", Resources(1), LONG_AGO)


@dataclass
class World:
    """Nova and Tenure at once. Its one server's metadata are full, as its tags are."""

    listed: list[Server] = field(default_factory=list)
    now: Server | None = None
    known: KnownLife | None = None
    nodes: frozenset[str] = frozenset({"n"})
    done: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def changed_since(self, _at: datetime) -> list[Server]:
        return self.listed

    def server(self, server: str) -> Server | None:
        self.asked.append(server)
        return self.now

    def newest(self, _server: str) -> KnownLife | None:
        return self.known

    def mark(self, _server: str, _marks: Any) -> None:
        raise OpenStackRefused(403, "metadata property count exceeds 128")

    def tag(self, _server: str, _tag: str) -> None:
        raise OpenStackRefused(400, "tags limit 50")

    def delete(self, server: str) -> None:
        self.done.append(server)


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


def test_made_up_notifications_cause_few_looks() -> None:
    world = World([SPOT], None)
    keeper = keeper_of(world)
    for _ in range(5000):
        keeper.heard(str(uuid4()))
    keeper._poll()
    assert keeper._agenda.waiting()[0] <= 101
