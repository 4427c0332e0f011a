"""The registry of events: what is known of a kind, and what has to agree with it."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from app.domain.events import InstanceStopped, NodeDrained
from app.domain.events.kinds import REGISTERED, Group
from app.domain.events.registry import ENDINGS, ENDS, EXTENSIONS, KINDS, NOTICES, POLICIES, STARTS
from app.platform.database.schema import event as event_table

ROOT = Path(__file__).parents[2]
SERVED = {
    "event_one_start": STARTS,
    "event_one_end": ENDS,
    "event_notice": NOTICES,
    "event_promise_ending": ENDINGS,
    "event_move": ("instance_moved",),
    "event_extension": EXTENSIONS,
    "event_extension_asked": EXTENSIONS,
    "event_policy": POLICIES,
    "event_of_project": ("instance_started", "instance_rejected", "project"),
    "event_rejected": ("instance_rejected",),
    "event_evicted": ("instance_evicted",),
    "event_flavor": ("flavor_added",),
    "event_job": tuple(name for name, kind in KINDS.items() if kind.group is Group.JOB),
}
"""The kinds that each partial index holds."""


def test_partial_indexes_hold_the_kinds_of_the_registry() -> None:
    """An index that misses a kind is not used for it; or two starts of one instance could stand in the log."""
    held = {
        index.name: tuple(re.findall(r"'(\w+)'", str(index.dialect_options["postgresql"]["where"])))
        for index in event_table.indexes
        if index.dialect_options["postgresql"]["where"] is not None
    }
    assert held == SERVED


def test_every_event_class_is_a_kind() -> None:
    assert {kind.form for kind in KINDS.values()} == set(REGISTERED)
    assert len(KINDS) == len(REGISTERED)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_names_its_subject_and_its_fields(name: str) -> None:
    kind = KINDS[name]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", name)
    assert kind.version >= 1
    named = {field.name for field in fields(kind.form)}
    assert "at_us" in named
    assert kind.subject is None or kind.subject in named
    assert all(field.kw_only for field in fields(kind.form))


def test_events_cannot_be_changed() -> None:
    drained = NodeDrained(at_us=0, node="n")
    with pytest.raises(FrozenInstanceError):
        drained.node = "m"  # type: ignore[misc]


def test_frequent_events_are_refused_a_change_by_the_type_checker() -> None:
    """`make lint` fails where a line that is marked as refused is not."""
    stopped = InstanceStopped(at_us=0, instance_id="i")
    stopped.instance_id = "j"  # type: ignore[misc]
    assert {stopped} == {InstanceStopped(at_us=0, instance_id="j")}


MOST_FILES = {"node_drained": 8, "eviction_confirmed": 6, "eviction_overdue": 7, "eviction_risk": 10}
"""Of some kinds, in how many files of the service the class or the name stands. The list of families is not counted."""


@pytest.mark.parametrize("name", MOST_FILES)
def test_a_kind_stands_in_few_files(name: str) -> None:
    """Everything that can follow from the registry is written nowhere else. Managers of clusters are no service."""
    named = re.compile(rf"\b{KINDS[name].form.__name__}\b|[\"'`]{name}[\"'`]")
    files = [path for path in (ROOT / "app").rglob("*.py") if path.parent.name != "events" or path.stem != "__init__"]
    files = [path for path in files if not {"managing", "clusters"} & {*path.parts}]
    standing = sorted(str(path.relative_to(ROOT)) for path in files if named.search(path.read_text(encoding="utf-8")))
    assert len(standing) <= MOST_FILES[name], standing
