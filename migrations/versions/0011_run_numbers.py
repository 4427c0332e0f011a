"""Runs are numbered in each cloud, so that no number tells of other clouds' runs."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# A dump of the schema before, put back over this one, leaves functions behind: pg_restore removes what the dump knows.
_STATEMENTS = (
    "ALTER TABLE forecast_run ADD COLUMN number bigint",
    """
    UPDATE forecast_run SET number = counted.number
    FROM (SELECT id, row_number() OVER (PARTITION BY cloud_id ORDER BY id) AS number FROM forecast_run) AS counted
    WHERE counted.id = forecast_run.id
    """,
    "ALTER TABLE forecast_run ALTER COLUMN number SET NOT NULL",
    "CREATE UNIQUE INDEX forecast_run_number ON forecast_run (cloud_id, number)",
    # Programs of the previous revision name no number. The lock lets a cloud's runs be numbered one after the other.
    """
    CREATE OR REPLACE FUNCTION run_number() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM FROM cloud WHERE id = NEW.cloud_id FOR NO KEY UPDATE;
        NEW.number := 1 + coalesce((SELECT max(number) FROM forecast_run WHERE cloud_id = NEW.cloud_id), 0);
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER run_number BEFORE INSERT ON forecast_run FOR EACH ROW EXECUTE FUNCTION run_number()
    """,
)


def upgrade() -> None:
    """Number the runs of each cloud, oldest first."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Remove the numbers; answers then show the ids again."""
    op.execute("DROP TRIGGER run_number ON forecast_run")
    op.execute("DROP FUNCTION run_number()")
    op.execute("ALTER TABLE forecast_run DROP COLUMN number")
