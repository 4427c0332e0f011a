"""Clusters: what each one is meant to be, and what its manager told of it."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # Some are left where a dump of the schema before was put back over this one.
    "DROP TABLE IF EXISTS cluster_event, cluster",
    """
    CREATE TABLE cluster (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT cluster_pkey PRIMARY KEY,
        name text NOT NULL CONSTRAINT cluster_name_key UNIQUE,
        spec jsonb NOT NULL,
        version integer NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        changed_at timestamptz NOT NULL DEFAULT now(),
        last_seq bigint NOT NULL DEFAULT 0,
        reported_at timestamptz,
        loop_s double precision,
        orphan_count integer
    )
    """,
    """
    CREATE TABLE cluster_event (
        cluster_id integer NOT NULL CONSTRAINT cluster_event_cluster_id_fkey REFERENCES cluster (id) ON DELETE CASCADE,
        seq bigint NOT NULL,
        at_us bigint NOT NULL,
        kind text NOT NULL,
        key text NOT NULL,
        facts jsonb NOT NULL,
        CONSTRAINT cluster_event_pkey PRIMARY KEY (cluster_id, seq)
    )
    """,
    "CREATE UNIQUE INDEX cluster_event_key ON cluster_event (cluster_id, key)",
)


def upgrade() -> None:
    """Create the tables."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if there are clusters: what their managers told is stored nowhere else in the service."""
    if op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT FROM cluster)").scalar_one():
        raise Irreversible("schema 0019 cannot be taken back: all clusters, with their events, would go")
    op.execute("DROP TABLE cluster_event, cluster")
