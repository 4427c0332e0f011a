"""Clouds being imported, which nobody sees before their past is complete."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Mark every existing cloud as complete."""
    op.execute("ALTER TABLE cloud ADD COLUMN importing boolean NOT NULL DEFAULT false")


def downgrade() -> None:
    """Refuse: older programs would take a half-imported cloud for a complete one."""
    raise Irreversible("schema 0004 cannot be taken back: clouds that are being imported would be taken for whole ones")
