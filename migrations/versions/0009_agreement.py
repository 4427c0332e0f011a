"""The agreement between processes of different versions: which may run, and what they may write."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # One is left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS agreement",
    """
    CREATE TABLE agreement (
        one boolean DEFAULT true CONSTRAINT agreement_pkey PRIMARY KEY CONSTRAINT agreement_one CHECK (one),
        runs_from text NOT NULL,
        log_format smallint NOT NULL
    )
    """,
    "INSERT INTO agreement (runs_from, log_format) VALUES ('0009', 1)",
)


def upgrade() -> None:
    """Add the table with its one row."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if logs may contain events that programs from before the agreement would ignore."""
    log_format = op.get_bind().exec_driver_sql("SELECT log_format FROM agreement").scalar_one()
    if log_format > 1:
        raise Irreversible(f"schema 0009 cannot be taken back: log format {log_format} is in force")
    op.execute("DROP TABLE agreement")
