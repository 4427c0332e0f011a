"""The rate of the data of a peer that an operator knows."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. It is left where a dump of the schema before was put back over this one."""
    op.execute("ALTER TABLE peer ADD COLUMN IF NOT EXISTS link_mbit_s double precision")


def downgrade() -> None:
    """Drop it. Until enough has come over a link its rate is not known."""
    op.execute("ALTER TABLE peer DROP COLUMN link_mbit_s")
