"""Peers: since when they are paused and by whom, from when on their awards are judged; an index of jobs in the log."""

from __future__ import annotations

from alembic import op

from migrations.indexes import build_index, drop_index

revision = "0025"
down_revision = "0022"
branch_labels = None
depends_on = None

_NAME = "event_job"
_KINDS = "'job_requested', 'job_admitted', 'job_offered', 'job_declined', 'job_awarded', 'job_cancelled', 'job_ended'"


def upgrade() -> None:
    """Add the columns, and index events that are rare."""
    op.execute(
        "ALTER TABLE peer ADD COLUMN IF NOT EXISTS paused_by text, ADD COLUMN IF NOT EXISTS paused_at timestamptz,"
        " ADD COLUMN IF NOT EXISTS judged_from timestamptz NOT NULL DEFAULT now()"
    )
    op.execute("UPDATE peer SET paused_by = 'operator', paused_at = now() WHERE paused_because IS NOT NULL")
    build_index(_NAME, f"event (cloud_id, (data->>'job'), seq) WHERE kind IN ({_KINDS})")


def downgrade() -> None:
    """Drop them. Paused peers stay paused; only speed is lost with the index."""
    drop_index(_NAME)
    op.execute("ALTER TABLE peer DROP COLUMN paused_by, DROP COLUMN paused_at, DROP COLUMN judged_from")
