"""Venues: what providers tell of machines taken back, own observations, learned models with their runs, feeds."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_TABLES = "provider_rate, pool_observation, venue_model, venue_refit, venue_feed"
# No table refers to one of an earlier schema: a dump of that schema could not be put back over this one.
_STATEMENTS = (
    # Some are left where a dump of the schema before was put back over this one.
    f"DROP TABLE IF EXISTS {_TABLES}",
    "ALTER TABLE venue ADD COLUMN IF NOT EXISTS revoked_by text NOT NULL DEFAULT 'price'",
    "ALTER TABLE venue ADD COLUMN IF NOT EXISTS observed_us bigint",
    """
    CREATE TABLE provider_rate (
        venue_id integer NOT NULL,
        region text NOT NULL,
        zone text NOT NULL,
        instance_type text NOT NULL,
        product text NOT NULL,
        at_us bigint NOT NULL,
        kind text NOT NULL,
        share double precision NOT NULL,
        CONSTRAINT provider_rate_pkey PRIMARY KEY (venue_id, region, zone, instance_type, product)
    )
    """,
    """
    CREATE TABLE pool_observation (
        pool_id integer NOT NULL,
        instance text NOT NULL,
        at_us bigint NOT NULL,
        kind text NOT NULL,
        CONSTRAINT pool_observation_pkey PRIMARY KEY (pool_id, instance, at_us, kind)
    )
    """,
    """
    CREATE TABLE venue_model (
        venue_id integer NOT NULL,
        trained_us bigint NOT NULL,
        body jsonb NOT NULL,
        fitted_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT venue_model_pkey PRIMARY KEY (venue_id)
    )
    """,
    """
    CREATE TABLE venue_refit (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT venue_refit_pkey PRIMARY KEY,
        venue_id integer NOT NULL,
        until_us bigint NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        attempts integer NOT NULL DEFAULT 0,
        error text,
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        retry_at timestamptz
    )
    """,
    "CREATE UNIQUE INDEX venue_refit_until ON venue_refit (venue_id, until_us)",
    """
    CREATE TABLE venue_feed (
        venue_id integer NOT NULL,
        provider text NOT NULL,
        region text NOT NULL,
        polled_at timestamptz,
        succeeded_at timestamptz,
        failures integer NOT NULL DEFAULT 0,
        error text,
        CONSTRAINT venue_feed_pkey PRIMARY KEY (venue_id)
    )
    """,
)


def upgrade() -> None:
    """Create the tables."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if there are observations: they are stored nowhere else. The rest is derived, or can be had again."""
    if op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT FROM pool_observation)").scalar_one():
        raise Irreversible("schema 0021 cannot be taken back: all observations of pools would go")
    op.execute(f"DROP TABLE {_TABLES}")
    op.execute("ALTER TABLE venue DROP COLUMN revoked_by, DROP COLUMN observed_us")
