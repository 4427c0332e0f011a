"""Index of the notices that a promise ends, by instance."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_NAME = "event_promise_ending"


def upgrade() -> None:
    """Index events that are rare, and of which there are none yet."""
    build_index(_NAME, "event (cloud_id, instance_id, seq) WHERE kind IN ('promise_ending')")


def downgrade() -> None:
    """Drop the index; only speed is lost."""
    drop_index(_NAME)
