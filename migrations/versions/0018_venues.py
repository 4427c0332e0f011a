"""Venues: machine types, pools, their prices by day, and times in which nobody collected prices."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0018"
down_revision = "0015"
branch_labels = None
depends_on = None

_STATEMENTS = (
    # Some are left where a dump of the schema before was put back over this one, or over a later one.
    "DROP TABLE IF EXISTS price_gap, price_day, pool, machine_type, venue CASCADE",
    """
    CREATE TABLE venue (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT venue_pkey PRIMARY KEY,
        name text NOT NULL CONSTRAINT venue_name_key UNIQUE,
        currency text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        changed_at timestamptz NOT NULL DEFAULT now(),
        version bigint NOT NULL DEFAULT 0,
        pool_count integer NOT NULL DEFAULT 0,
        price_count bigint NOT NULL DEFAULT 0,
        first_us bigint,
        last_us bigint
    )
    """,
    """
    CREATE TABLE machine_type (
        venue_id integer NOT NULL CONSTRAINT machine_type_venue_id_fkey REFERENCES venue (id) ON DELETE CASCADE,
        instance_type text NOT NULL,
        compute_units double precision NOT NULL,
        memory_gib double precision NOT NULL,
        on_demand double precision NOT NULL,
        CONSTRAINT machine_type_pkey PRIMARY KEY (venue_id, instance_type)
    )
    """,
    """
    CREATE TABLE pool (
        id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT pool_pkey PRIMARY KEY,
        venue_id integer NOT NULL CONSTRAINT pool_venue_id_fkey REFERENCES venue (id) ON DELETE CASCADE,
        provider text NOT NULL,
        region text NOT NULL,
        zone text NOT NULL,
        instance_type text NOT NULL,
        product text NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX pool_words ON pool (venue_id, provider, region, zone, instance_type, product)",
    """
    CREATE TABLE price_day (
        pool_id integer NOT NULL CONSTRAINT price_day_pool_id_fkey REFERENCES pool (id) ON DELETE CASCADE,
        day integer NOT NULL,
        at_us bigint[] NOT NULL,
        micro bigint[] NOT NULL,
        CONSTRAINT price_day_pkey PRIMARY KEY (pool_id, day)
    )
    """,
    """
    CREATE TABLE price_gap (
        venue_id integer NOT NULL CONSTRAINT price_gap_venue_id_fkey REFERENCES venue (id) ON DELETE CASCADE,
        from_us bigint NOT NULL,
        to_us bigint NOT NULL,
        CONSTRAINT price_gap_pkey PRIMARY KEY (venue_id, from_us)
    )
    """,
)


def upgrade() -> None:
    """Create the tables."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse if there are venues: their prices are stored nowhere else, and providers show only the last months."""
    if op.get_bind().exec_driver_sql("SELECT EXISTS (SELECT FROM venue)").scalar_one():
        raise Irreversible("schema 0018 cannot be taken back: all venues, with their prices, would go")
    op.execute("DROP TABLE price_gap, price_day, pool, machine_type, venue")
