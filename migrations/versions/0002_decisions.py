"""Small indexes of the event log, so that what was decided can be told without reading the log."""

from __future__ import annotations

from migrations import build_index, drop_index

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INDEXES = {
    "event_rejected": "event (cloud_id, seq) WHERE kind = 'instance_rejected'",
    "event_evicted": "event (cloud_id, seq) WHERE kind = 'instance_evicted'",
    "event_policy": "event (cloud_id, seq) WHERE kind IN ('cloud_created', 'policy_changed')",
    "event_flavor": "event (cloud_id, (data->>'flavor')) WHERE kind = 'flavor_added'",
}


def upgrade() -> None:
    """Index what is looked for by its kind and rare; the many, accepted starts and stops, cost nothing more."""
    for name, on in _INDEXES.items():
        build_index(name, on)


def downgrade() -> None:
    """Nothing is lost but speed."""
    for name in _INDEXES:
        drop_index(name)
