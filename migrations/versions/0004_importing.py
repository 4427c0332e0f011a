"""Clouds that are being imported, which nobody sees before their past is whole."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every cloud that is there is whole."""
    op.execute("ALTER TABLE cloud ADD COLUMN importing boolean NOT NULL DEFAULT false")
