"""Tokens: their scope, their last use, and one valid token for each name."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    ALTER TABLE token
        ADD COLUMN cloud_id integer CONSTRAINT token_cloud_id_fkey REFERENCES cloud (id),
        ADD COLUMN last_used_at timestamptz
    """,
    "CREATE UNIQUE INDEX token_one_name ON token (name) WHERE revoked_at IS NULL",
)


def upgrade() -> None:
    """Add the columns and the index."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse: a token of one cloud would become one of all clouds."""
    raise Irreversible("schema 0003 cannot be taken back: tokens of one cloud would be tokens of all")
