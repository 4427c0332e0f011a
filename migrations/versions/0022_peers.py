"""Peers: other clouds that jobs are offered to, and that may offer jobs here."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # It is left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS peer",
    """
    CREATE TABLE peer (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT peer_pkey PRIMARY KEY,
        name text NOT NULL CONSTRAINT peer_name_key UNIQUE,
        url text NOT NULL,
        cloud text NOT NULL,
        secret text NOT NULL,
        paused_because text,
        quota jsonb NOT NULL DEFAULT '{}',
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    """Create the table."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if there are peers: the tokens that they gave us are stored nowhere else."""
    if op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT FROM peer)").scalar_one():
        raise Irreversible("schema 0022 cannot be taken back: all peers, with the tokens that they gave, would go")
    op.execute("DROP TABLE peer")
