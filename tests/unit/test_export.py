"""Events of a newer service are a readable error of the export, not a fault."""

from __future__ import annotations

import pytest

from app.domain.inputs import InputError
from app.workbench.export import recorded_of

AT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "fields",
    [
        {"seq": 5, "at": AT, "kind": "node_labelled", "node": "n", "label": "rack-1"},
        {"seq": 5, "at": AT, "kind": "instance_evicted", "id": "a", "reason": "moved", "cause_seq": 5},
        {"seq": 5, "at": AT, "kind": "node_drained", "node": "n", "until": AT},
        {"seq": 5, "at": AT, "kind": "policy_changed", "policy": {"colour": "red"}},
        {"seq": 5, "at": AT, "kind": "node_added", "node": "n", "capacity": {"cores": 1, "gpus": 1}},
    ],
)
def test_an_event_that_this_version_cannot_read_is_named(fields: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"event 5 cannot be read .*use the command of the service's version"):
        recorded_of(fields)
