"""Index of the moves of instances, by instance."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_NAME = "event_move"


def upgrade() -> None:
    """Index events that are rare, and of which there are none yet."""
    build_index(_NAME, "event (cloud_id, instance_id, seq) WHERE kind IN ('instance_moved')")


def downgrade() -> None:
    """Drop the index; only speed is lost."""
    drop_index(_NAME)
