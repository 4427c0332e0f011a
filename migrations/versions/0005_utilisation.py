"""The history of utilisation, in buckets of several widths."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE utilisation (
        cloud_id integer NOT NULL CONSTRAINT utilisation_cloud_id_fkey REFERENCES cloud (id),
        node text NOT NULL,
        width_s integer NOT NULL,
        bucket bigint NOT NULL,
        last_us bigint NOT NULL,
        on_demand_area numeric NOT NULL,
        spot_area numeric NOT NULL,
        total_area numeric NOT NULL,
        on_demand_peak integer NOT NULL,
        spot_peak integer NOT NULL,
        used_peak integer NOT NULL,
        on_demand_end integer NOT NULL,
        spot_end integer NOT NULL,
        total_end integer NOT NULL,
        on_demand_admitted integer NOT NULL,
        on_demand_rejected integer NOT NULL,
        spot_admitted integer NOT NULL,
        spot_rejected integer NOT NULL,
        evicted integer NOT NULL,
        CONSTRAINT utilisation_pkey PRIMARY KEY (cloud_id, node, width_s, bucket)
    )
    """,
    """
    CREATE TABLE utilisation_level (
        cloud_id integer NOT NULL CONSTRAINT utilisation_level_cloud_id_fkey REFERENCES cloud (id),
        node text NOT NULL,
        on_demand integer NOT NULL,
        spot integer NOT NULL,
        total integer NOT NULL,
        last_us bigint NOT NULL,
        CONSTRAINT utilisation_level_pkey PRIMARY KEY (cloud_id, node)
    )
    """,
    """
    CREATE TABLE utilisation_progress (
        cloud_id integer CONSTRAINT utilisation_progress_pkey PRIMARY KEY
            CONSTRAINT utilisation_progress_cloud_id_fkey REFERENCES cloud (id),
        seq bigint NOT NULL,
        at_us bigint NOT NULL,
        begin_us bigint NOT NULL
    )
    """,
)


def upgrade() -> None:
    """Create the tables; the worker fills them from the logs."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Drop the tables. Nothing is lost, because the worker computes the history again from the logs."""
    for table in ("utilisation_progress", "utilisation_level", "utilisation"):
        op.execute(f"DROP TABLE {table}")
