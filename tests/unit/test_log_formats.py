"""Tests that nothing is written that older programs do not know, while they may read the log."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from older_programs import cut, read

from app.admission.batch import Batch, decide_next
from app.admission.outcomes import Change, Changed
from app.domain.budgets import Book, Budget, BudgetUnit
from app.domain.errors import FormatNotInForce
from app.domain.events import (
    CloudCreated,
    EvictionRisk,
    FlavorAdded,
    ForeignJobEnded,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    PolicyChanged,
    RoomHeld,
)
from app.domain.events.formats import LOG_FORMAT, in_format, newest_part, told_in
from app.domain.events.kinds import REGISTERED, Kind
from app.domain.events.registry import KINDS
from app.domain.jobs import LinkRate, Word
from app.domain.values import (
    Acceptable,
    Basis,
    Guarantee,
    Market,
    Placement,
    Policy,
    ProposedMove,
    Rejection,
    Resources,
    RiskLevel,
    newer,
)
from app.engine.cloud import Cloud
from app.scheduling.store.codec import decode, encode

PINNED = Path(__file__).parents[1] / "golden/formats.json"
POLICY = Policy(confidence=0.9)


def shape(hint: Any) -> Any:
    """All that can stand there: the fields of a class, the values of an enumeration."""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return {one.name: shape(hints[one.name]) for one in fields(hint)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [one.value for one in hint]
    return next((found for part in get_args(hint) if (found := shape(part)) is not None), None)


def test_what_a_log_format_can_say_never_changes() -> None:
    """A kind, a field or a value that is new says so, with one more than the newest format that was released.

    Then add the new format to the file.
    """
    found = {
        str(log_format): {
            kind.name: {"version": kind.version, "fields": shape(cut(kind.form, log_format))}
            for kind in KINDS.values()
            if kind.since <= log_format
        }
        for log_format in range(1, LOG_FORMAT + 1)
    }
    assert found == json.loads(PINNED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("event", [CloudCreated(at_us=1, policy=POLICY), PolicyChanged(at_us=1, policy=POLICY)])
def test_fields_that_came_later_are_left_out_at_their_defaults(event: CloudCreated | PolicyChanged) -> None:
    kind = "cloud_created" if isinstance(event, CloudCreated) else "policy_changed"
    older = encode(event, 1)
    assert read(kind, 1, older, 1).policy.confidence == 0.9
    assert decode(kind, 1, older) == event
    newest = encode(event)
    assert "shared_ids" in newest
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        read(kind, 1, newest, 1)


@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("shared_ids", False, 2),
        ("clock_step_us", None, 2),
        ("placement", Placement.BEST_FIT, 3),
        ("guarantee", Guarantee.STRATIFIED, 4),
        ("strata_us", (), 4),
        ("shortest_lifetime_us", 1, 5),
        ("longest_lifetime_us", 1, 5),
        ("least_probability", 0.1, 5),
        ("highest_probability", 0.9, 5),
        ("min_windows", 0, 5),
        ("owner_cores", 0, 5),
        ("owner_share", 0.5, 5),
        ("overrunning_cores", 0, 5),
        ("displaces_overrunning", True, 5),
        ("budget", BudgetUnit.CORE_HOURS, 5),
        ("overrun_share", 0.1, 5),
        ("gives_back", True, 6),
    ],
)
def test_what_an_older_format_cannot_say_is_refused(field: str, value: object, since: int) -> None:
    event = PolicyChanged(at_us=1, policy=replace(POLICY, **{field: value}))
    refusal = rf"needs log format {since}, and format {since - 1} is in force.*upgrade --finish"
    with pytest.raises(FormatNotInForce, match=refusal):
        encode(event, since - 1)
    assert decode("policy_changed", 1, encode(event, since)) == event


def test_a_policy_at_its_defaults_is_written_for_every_older_program() -> None:
    event = PolicyChanged(at_us=1, policy=POLICY)
    assert "placement" not in encode(event, 2)
    assert "placement" in encode(event, 3)
    assert decode("policy_changed", 1, encode(event, 2)) == event


def test_what_was_there_from_the_first_is_written_as_ever() -> None:
    basis = Basis(3, 1, 0.01, 7, 0.005, Budget(1, 0, 0.5, 0.1, 0.1))
    started = InstanceStarted(
        at_us=1, instance_id="a", market=Market.SPOT, flavor="small", node="n", basis=basis, victims=("b",)
    )
    node = NodeAdded(at_us=1, node="n", capacity=Resources(2))
    assert encode(node, 1) == encode(node)
    newest = json.loads(encode(started))
    assert [newest["basis"].pop(name) for name in ("book", "windows", "floor")] == [None] * 3
    in_core_hours = ("core_hours", "mean_core_hours", "evicted_core_hours")
    assert [newest["basis"]["budget"].pop(name) for name in in_core_hours] == [None] * 3
    assert newest.pop("wanted") is None
    assert newest.pop("limited_by") is None
    assert newest.pop("nodes") == []
    assert newest["basis"].pop("quota") is None
    assert newest.pop("owner") is None
    assert newest.pop("allowed") == []
    assert newest.pop("observed") is False
    assert [newest.pop(name) for name in ("project", "user")] == [None] * 2
    assert newest.pop("goes_first") is False
    assert json.loads(encode(started, 1)) == newest


def test_a_group_is_written_in_its_format_only() -> None:
    plain = InstanceStarted(at_us=1, instance_id="a", market=Market.SPOT, flavor="c1", node="n", basis=Basis(3))
    group = replace(plain, nodes=("n", "n"))
    assert "nodes" not in encode(plain, 4)
    assert decode("instance_started", 1, encode(plain, 4)) == plain
    assert decode("instance_started", 1, encode(group, 5)) == group
    with pytest.raises(FormatNotInForce, match="nodes needs log format 5"):
        encode(group, 4)


def test_a_book_is_written_in_its_format_only() -> None:
    plain = InstanceStarted(
        at_us=1, instance_id="a", market=Market.SPOT, flavor="c1", node="n", basis=Basis(3, 1, 0.01)
    )
    booked = replace(plain, basis=replace(plain.basis, book=Book(0, None, 0.5, 0, 0.25, 1)))
    assert "book" not in encode(plain, 3)
    assert decode("instance_started", 1, encode(plain, 3)) == plain
    assert decode("instance_started", 1, encode(booked, 4)) == booked
    with pytest.raises(FormatNotInForce, match="book needs log format 4"):
        encode(booked, 3)


def test_a_field_that_only_tells_more_is_left_out_of_an_older_format() -> None:
    """So a process of a newer build goes on refusing starts, and giving notice, before an upgrade is finished."""
    refused = InstanceRejected(
        at_us=1, instance_id="a", market=Market.SPOT, flavor="c1", reason=Rejection.BUDGET_EXHAUSTED, lifetime_us=7
    )
    risk = EvictionRisk(
        at_us=1, instance_id="a", level=RiskLevel.RAISED, probability=0.5, threshold=0.1, epoch=1, slots=2
    )
    for kind, plain, more in (
        ("instance_rejected", refused, replace(refused, acceptable=Acceptable(5, None))),
        ("eviction_risk", risk, replace(risk, probability_bound=0.9, windows=3.5)),
        ("eviction_risk", risk, replace(risk, moves=(ProposedMove("b", "n", "m"),))),
    ):
        assert decode(kind, 1, encode(more, 4)) == plain == told_in(more, 4)
        assert decode(kind, 1, encode(more, 5)) == more == told_in(more, 5)


def test_held_room_goes_by_its_age_where_an_older_format_is_in_force() -> None:
    """So a host of a newer build goes on holding room before an upgrade is finished, as older builds understand it."""
    start = InstanceStarted(
        at_us=1, instance_id="p.j.1.held", market=Market.SPOT, flavor="c1", node="n", basis=Basis(3), lifetime_us=9
    )
    room = RoomHeld(
        at_us=1,
        peer="p",
        job="j",
        attempt=1,
        instance_id="p.j.1.held",
        flavor="c1",
        count=1,
        lifetime_us=8,
        until_us=7,
        ends_us=20,
    )
    refused = ForeignJobEnded(at_us=1, peer="p", job="j", attempt=1, word=Word.REFUSED, reason="link_slow")
    link = LinkRate(10**6, 5, 3, 0)
    for kind, plain, more in (
        ("instance_started", start, replace(start, goes_first=True)),
        ("room_held", room, replace(room, link=link)),
        ("foreign_job_ended", refused, replace(refused, link=link)),
    ):
        assert read(kind, 1, encode(more, 8), 8) == read(kind, 1, encode(plain, 8), 8)
        assert decode(kind, 1, encode(more, 8)) == plain == told_in(more, 8)
        assert decode(kind, 1, encode(more, 9)) == more == told_in(more, 9)
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            read(kind, 1, encode(more, 9), 8)


def test_a_batch_decides_by_what_its_format_can_say() -> None:
    """Room that is held in an older format goes by its age, as the log then says."""
    for log_format in (8, 9):
        cloud = Cloud()
        for event in (
            CloudCreated(at_us=1, policy=replace(POLICY, guarantee=Guarantee.NONE)),
            NodeAdded(at_us=1, node="n", capacity=Resources(2)),
            FlavorAdded(at_us=1, flavor="c1", demand=Resources(1)),
        ):
            cloud.apply(event)
        held, young = (
            InstanceStarted(
                at_us=1,
                instance_id=name,
                market=Market.SPOT,
                flavor="c1",
                node="n",
                basis=Basis(2),
                lifetime_us=9,
                goes_first=goes_first,
            )
            for name, goes_first in (("held", True), ("young", False))
        )
        batch = Batch({}, log_format)
        for event in (held, young):
            assert decide_next(batch, cloud, Change(lambda _cloud, _at_us, event=event: [event]), 1, None)
        _, victims = cloud.place_on_demand("c1", 1)
        assert victims == (("young",) if log_format == 8 else ("held",))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabelled:
    at_us: int
    node: str


def test_a_kind_that_came_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTERED, NodeLabelled, Kind(name="node_labelled", form=NodeLabelled, since=7))
    event: Any = NodeLabelled(at_us=1, node="n")
    assert in_format(event, 7) is event
    with pytest.raises(FormatNotInForce, match="node_labelled needs log format 7, and format 6"):
        in_format(event, 6)


@newer(VIOLET=7)
class Colour(StrEnum):
    RED = "red"
    VIOLET = "violet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    colour: Colour | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePainted:
    at_us: int
    paint: Paint
    stripes: tuple[Colour, ...] = ()


def painted(colour: Colour | None, *stripes: Colour) -> Any:
    return NodePainted(at_us=1, paint=Paint(colour=colour), stripes=stripes)


def test_a_value_that_came_later_is_refused_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind(name="node_painted", form=NodePainted)
    monkeypatch.setitem(REGISTERED, NodePainted, kind)
    monkeypatch.setitem(KINDS, kind.name, kind)
    assert newest_part(NodePainted) == 7
    for newer_one, name in ((painted(Colour.VIOLET), "colour"), (painted(None, Colour.RED, Colour.VIOLET), "stripes")):
        assert in_format(newer_one, 7) is newer_one
        with pytest.raises(FormatNotInForce, match=f"the {name} 'violet' needs log format 7, and format 6 is in force"):
            in_format(newer_one, 6)
        with pytest.raises(msgspec.ValidationError, match="violet"):
            read(kind.name, 1, encode(newer_one, 7), 6)
    for known in (painted(Colour.RED, Colour.RED), painted(None)):
        assert read(kind.name, 1, encode(known, 6), 6).at_us == 1
        assert msgspec.json.decode(encode(known, 6), type=NodePainted) == known


def test_only_the_step_that_needs_a_newer_format_is_refused() -> None:
    cloud, batch = Cloud(), Batch({}, log_format=1)
    cloud.apply(CloudCreated(at_us=0, policy=POLICY))
    for policy in (replace(POLICY, shared_ids=False), replace(POLICY, confidence=0.8)):
        assert decide_next(batch, cloud, Change(lambda _, at, p=policy: [PolicyChanged(at_us=at, policy=p)]), 1, None)  # type: ignore[misc]
    refused, changed = batch.outcomes
    assert isinstance(refused, FormatNotInForce)
    assert isinstance(changed, Changed)
    assert [one.seq for one in batch.recorded] == [2]
    assert cloud.policy == replace(POLICY, confidence=0.8)
