"""Index of the starts for a project, by project."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_NAME = "event_of_project"
_WHERE = "kind IN ('instance_started', 'instance_rejected') AND data->>'project' IS NOT NULL"


def upgrade() -> None:
    """Index the starts that name a project: other logs pay nothing."""
    build_index(_NAME, f"event (cloud_id, (data->>'project'), seq) WHERE {_WHERE}")


def downgrade() -> None:
    """Drop the index; only speed is lost."""
    drop_index(_NAME)
