"""Data of jobs on its way between clouds, and the object stores of peers."""

from __future__ import annotations

from alembic import op

from migrations.indexes import build_index, drop_index

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_INDEX = "event_job"
_KINDS = "'job_requested', 'job_admitted', 'job_offered', 'job_declined', 'job_awarded', 'job_cancelled', 'job_ended'"
_MORE = "'job_collected', 'job_outputs_lost'"

_STATEMENTS = (
    # It is left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS transfer",
    """
    CREATE TABLE transfer (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT transfer_pkey PRIMARY KEY,
        cloud_id integer NOT NULL,
        direction text NOT NULL,
        peer text NOT NULL,
        job text NOT NULL,
        attempt integer NOT NULL,
        key text NOT NULL,
        bytes bigint NOT NULL,
        sha256 text,
        url text,
        state text NOT NULL DEFAULT 'waiting',
        done_bytes bigint NOT NULL DEFAULT 0,
        faults integer NOT NULL DEFAULT 0,
        fault text,
        not_before timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE UNIQUE INDEX transfer_object ON transfer (cloud_id, direction, peer, job, attempt, key)",
    "ALTER TABLE peer ADD COLUMN IF NOT EXISTS objects_url text",
)


def upgrade() -> None:
    """Create the table, add the column, and index the new kinds of events with the others of jobs."""
    for statement in _STATEMENTS:
        op.execute(statement)
    drop_index(_INDEX)
    build_index(_INDEX, f"event (cloud_id, (data->>'job'), seq) WHERE kind IN ({_KINDS}, {_MORE})")


def downgrade() -> None:
    """Drop both. What was on its way is asked for again, or ends with its attempt."""
    drop_index(_INDEX)
    build_index(_INDEX, f"event (cloud_id, (data->>'job'), seq) WHERE kind IN ({_KINDS})")
    op.execute("DROP TABLE transfer")
    op.execute("ALTER TABLE peer DROP COLUMN objects_url")
