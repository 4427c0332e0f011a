"""The event log, snapshots, quantile tables, forecast runs and tokens."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE cloud (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT cloud_pkey PRIMARY KEY,
        name text NOT NULL CONSTRAINT cloud_name_key UNIQUE,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE event (
        cloud_id integer NOT NULL,
        seq bigint NOT NULL,
        kind text NOT NULL,
        version smallint NOT NULL,
        data jsonb NOT NULL,
        at_us bigint NOT NULL GENERATED ALWAYS AS ((data->>'at_us')::bigint) STORED,
        instance_id text GENERATED ALWAYS AS (data->>'instance_id') STORED,
        CONSTRAINT event_pkey PRIMARY KEY (cloud_id, seq)
    )
    """,
    """
    CREATE UNIQUE INDEX event_one_start ON event (cloud_id, instance_id)
    WHERE kind IN ('instance_started', 'instance_rejected')
    """,
    """
    CREATE UNIQUE INDEX event_one_end ON event (cloud_id, instance_id)
    WHERE kind IN ('instance_stopped', 'instance_evicted')
    """,
    """
    CREATE VIEW event_readable AS
    SELECT cloud.name AS cloud, event.seq, to_timestamp(event.at_us / 1e6) AS at, event.kind, event.instance_id,
           event.data
    FROM event JOIN cloud ON cloud.id = event.cloud_id
    """,
    """
    CREATE TABLE snapshot (
        cloud_id integer CONSTRAINT snapshot_pkey PRIMARY KEY
            CONSTRAINT snapshot_cloud_id_fkey REFERENCES cloud (id),
        seq bigint NOT NULL,
        version smallint NOT NULL,
        digest text NOT NULL,
        data bytea NOT NULL,
        taken_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE quantile_table (
        cloud_id integer NOT NULL CONSTRAINT quantile_table_cloud_id_fkey REFERENCES cloud (id),
        epoch integer NOT NULL,
        epoch_us bigint NOT NULL,
        seq bigint NOT NULL,
        data bytea NOT NULL,
        computed_at timestamptz NOT NULL DEFAULT now(),
        wall_s double precision NOT NULL,
        CONSTRAINT quantile_table_pkey PRIMARY KEY (cloud_id, epoch)
    )
    """,
    """
    CREATE TABLE forecast_run (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT forecast_run_pkey PRIMARY KEY,
        cloud_id integer NOT NULL CONSTRAINT forecast_run_cloud_id_fkey REFERENCES cloud (id),
        cause text NOT NULL,
        due_us bigint,
        status text NOT NULL DEFAULT 'pending',
        attempts integer NOT NULL DEFAULT 0,
        error text,
        epoch integer,
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        retry_at timestamptz
    )
    """,
    "CREATE INDEX forecast_run_cloud ON forecast_run (cloud_id, id)",
    """
    CREATE UNIQUE INDEX forecast_run_one_pending ON forecast_run (cloud_id, coalesce(due_us, -1))
    WHERE status = 'pending'
    """,
    "CREATE INDEX forecast_run_open ON forecast_run (id) WHERE status <> 'succeeded'",
    """
    CREATE TABLE token (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT token_pkey PRIMARY KEY,
        name text NOT NULL,
        role text NOT NULL,
        hash bytea NOT NULL CONSTRAINT token_hash_key UNIQUE,
        created_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz,
        revoked_at timestamptz
    )
    """,
)


def upgrade() -> None:
    """Create everything in an empty database."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse, because there is no earlier schema."""
    raise Irreversible("schema 0001 is the first")
