"""The daemon's list of looks and its copy of Nova's list."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.domain.values import Resources
from app.nova.agenda import Agenda
from app.nova.figures import NovaFigures
from app.nova.mirror import OVERLAP_S, Mirror
from app.nova.rules.seen import Server

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
FIRST = Server("a", "ACTIVE", None, "n", "small", Resources(1), False, AT, AT, AT)
SECOND = replace(FIRST, id="b", updated_at=AT + timedelta(seconds=9))


def test_what_is_due_first_is_taken_first_and_once() -> None:
    agenda = Agenda()
    agenda.add("later", 0.05)
    agenda.add("now")
    agenda.add("now")
    agenda.add("much later", 60)
    assert agenda.take(0) == "now"
    assert agenda.take(0) is None
    assert agenda.take(1) == "later"
    assert agenda.take(0.01) is None


def test_an_earlier_wish_replaces_a_later_one_and_not_the_other_way_round() -> None:
    agenda = Agenda()
    agenda.add("a", 60)
    agenda.add("a")
    assert agenda.take(0) == "a"
    agenda.done("a")
    assert agenda.take(0) is None
    agenda.add("a")
    agenda.add("a", 60)
    assert agenda.take(0) == "a"


def test_a_server_in_hand_waits_until_it_is_let_go() -> None:
    agenda = Agenda()
    agenda.add("a")
    assert agenda.take(0) == "a"
    agenda.add("a")
    agenda.add("b")
    assert agenda.waiting()[0] == 2
    assert agenda.take(0) == "b"
    assert agenda.take(0) is None
    agenda.done("a")
    assert agenda.take(0) == "a"


def test_whoever_waits_is_woken() -> None:
    agenda, found = Agenda(), []
    waiting = threading.Thread(target=lambda: found.append(agenda.take(5)))
    waiting.start()
    began_s = time.monotonic()
    agenda.add("a")
    waiting.join(5)
    assert found == ["a"]
    assert time.monotonic() - began_s < 4


def test_changes_are_those_that_are_not_as_they_were() -> None:
    mirror = Mirror()
    assert mirror.replace([FIRST, SECOND], AT) == set()
    assert mirror.since() == SECOND.updated_at - timedelta(seconds=OVERLAP_S)
    moved = replace(FIRST, node="m")
    assert mirror.take([moved, SECOND], AT + timedelta(seconds=5)) == {"a"}
    assert mirror.get("a") == (moved, AT + timedelta(seconds=5))
    assert mirror.get("c") == (None, AT + timedelta(seconds=5))


def test_the_deleted_are_remembered_for_a_while() -> None:
    mirror = Mirror()
    mirror.replace([FIRST, SECOND], AT)
    deleted = replace(SECOND, status="DELETED")
    mirror.take([deleted], AT)
    assert mirror.replace([], AT) == {"a"}
    assert mirror.get("b")[0] == deleted
    assert mirror.replace([], AT + timedelta(hours=1)) == set()
    assert len(mirror) == 0


def test_a_deletion_that_was_seen_is_not_looked_at_again() -> None:
    mirror = Mirror()
    deleted = replace(SECOND, status="DELETED")
    for hour in range(1, 4):
        mirror.put(deleted)
        assert mirror.replace([FIRST], AT + timedelta(hours=hour)) == set()
    assert mirror.replace([], AT + timedelta(hours=4)) == {"a"}


def test_every_figure_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs/openstack.md").read_text()
    told = {family.name for family in NovaFigures().registry.collect() if family.name.startswith("tenure_")}
    counters = {family.name for family in NovaFigures().registry.collect() if family.type == "counter"}
    assert {f"{name}_total" if name in counters else name for name in told} == set(
        re.findall(r"`(tenure_nova_\w+)`", page)
    )
