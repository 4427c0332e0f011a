"""The time that data of jobs took to come from peers."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # It is left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS link_sample",
    """
    CREATE TABLE link_sample (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT link_sample_pkey PRIMARY KEY,
        peer text NOT NULL,
        direction text NOT NULL,
        bytes bigint NOT NULL,
        took_us bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX link_sample_newest ON link_sample (peer, direction, id)",
)


def upgrade() -> None:
    """Create the table."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Drop it. Rates are learned anew."""
    op.execute("DROP TABLE link_sample")
