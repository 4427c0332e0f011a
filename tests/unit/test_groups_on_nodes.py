"""The nodes of an evicted group, in the commands that list and that drill evictions."""

from __future__ import annotations

from datetime import UTC, datetime

from app.commands.drills import _words
from app.commands.handovers import _table
from tenure_client.forms.instances import HandoverAnswer, InstanceAnswer

AT = datetime(2026, 1, 1, tzinfo=UTC)
NODES = ["node-5", "node-5", "node-5", "node-6"]


def test_each_node_of_a_group_is_told_with_its_members() -> None:
    handover = HandoverAnswer(
        id="g1", node="node-5", flavor="small", reason="sla", cause_seq=1, scheduled_at=AT, deadline=AT,
        status="pending", nodes=NODES,
    )  # fmt: skip
    assert list(_table([handover]).columns[1].cells) == ["node-5 (3), node-6 (1)"]
    victim = InstanceAnswer(
        id="g1", seq=1, status="running", market="spot", flavor="small", at=AT, lifetime_s=60,
        eviction_probability=None, node="node-5", reason=None, quote=None, ended_at=None, cause_seq=None, ready_at=AT,
        count=4, nodes=NODES,
    )  # fmt: skip
    assert _words(victim) == "g1 (flavor small, on node-5 (3), node-6 (1), started 2026-01-01T00:00:00Z)"
