"""Small indexes of the event log for reading decisions without a scan of the log."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

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
    """Index rare events that are searched by kind. The frequent ones, accepted starts and stops, are not indexed."""
    for name, on in _INDEXES.items():
        build_index(name, on)


def downgrade() -> None:
    """Drop the indexes; only speed is lost."""
    for name in _INDEXES:
        drop_index(name)
