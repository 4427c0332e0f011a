"""Outcomes of plans' jobs that began at a peer."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE plan_outcome ADD COLUMN peer text")
    op.execute("CREATE INDEX plan_outcome_peer ON plan_outcome (peer)")


def downgrade() -> None:
    """Take the column back; outcomes at peers stay, as of jobs that began elsewhere."""
    op.execute("ALTER TABLE plan_outcome DROP COLUMN peer")
