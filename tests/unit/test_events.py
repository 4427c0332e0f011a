"""The registry of events: what is known of a kind, and what has to agree with it."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields

import pytest

from app.domain.events import InstanceStopped
from app.domain.events.kinds import REGISTERED
from app.domain.events.registry import ENDS, KINDS, NOTICES, POLICIES, STARTS
from app.store.schema import event as event_table

SERVED = {
    "event_one_start": STARTS,
    "event_one_end": ENDS,
    "event_notice": NOTICES,
    "event_policy": POLICIES,
    "event_rejected": ("instance_rejected",),
    "event_evicted": ("instance_evicted",),
    "event_flavor": ("flavor_added",),
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
    stopped = InstanceStopped(at_us=0, instance_id="i")
    with pytest.raises(FrozenInstanceError):
        stopped.instance_id = "j"  # type: ignore[misc]
