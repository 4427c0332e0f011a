"""Plans, and what came of their jobs."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # Some are left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS plan_outcome, plan",
    """
    CREATE TABLE plan (
        id text NOT NULL CONSTRAINT plan_pkey PRIMARY KEY,
        number bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT plan_number_key UNIQUE,
        created_at timestamptz NOT NULL DEFAULT now(),
        request jsonb NOT NULL,
        answer jsonb NOT NULL
    )
    """,
    """
    CREATE TABLE plan_outcome (
        plan_id text NOT NULL CONSTRAINT plan_outcome_plan_id_fkey REFERENCES plan (id) ON DELETE CASCADE,
        job text NOT NULL,
        told_at timestamptz NOT NULL DEFAULT now(),
        venue text,
        zone text,
        instance_type text,
        promised double precision NOT NULL,
        said_cost double precision NOT NULL,
        outcome jsonb NOT NULL,
        CONSTRAINT plan_outcome_pkey PRIMARY KEY (plan_id, job)
    )
    """,
    "CREATE INDEX plan_outcome_venue ON plan_outcome (venue)",
)


def upgrade() -> None:
    """Create the tables."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if there are plans: what was advised, and what came of it, is stored nowhere else."""
    if op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT FROM plan)").scalar_one():
        raise Irreversible("schema 0020 cannot be taken back: all plans, with their outcomes, would go")
    op.execute("DROP TABLE plan_outcome, plan")
