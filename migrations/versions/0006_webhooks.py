"""Webhooks: subscriptions with their positions in the log, and dead letters."""

from __future__ import annotations

from alembic import op

from migrations import Irreversible

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE TABLE webhook (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT webhook_pkey PRIMARY KEY,
        cloud_id integer NOT NULL CONSTRAINT webhook_cloud_id_fkey REFERENCES cloud (id),
        url text NOT NULL,
        secret text NOT NULL,
        kinds text[],
        paused_because text,
        created_at timestamptz NOT NULL DEFAULT now(),
        delivered_count bigint NOT NULL DEFAULT 0,
        delivered_at timestamptz,
        last_error text,
        urgent_seq bigint NOT NULL,
        urgent_attempts integer NOT NULL DEFAULT 0,
        urgent_retry_at timestamptz,
        ordinary_seq bigint NOT NULL,
        ordinary_attempts integer NOT NULL DEFAULT 0,
        ordinary_retry_at timestamptz
    )
    """,
    "CREATE INDEX webhook_cloud ON webhook (cloud_id, id)",
    """
    CREATE TABLE webhook_dead (
        webhook_id bigint NOT NULL CONSTRAINT webhook_dead_webhook_id_fkey REFERENCES webhook (id) ON DELETE CASCADE,
        seq bigint NOT NULL,
        kind text NOT NULL,
        attempts integer NOT NULL,
        error text NOT NULL,
        died_at timestamptz NOT NULL DEFAULT now(),
        replay_asked_at timestamptz,
        CONSTRAINT webhook_dead_pkey PRIMARY KEY (webhook_id, seq)
    )
    """,
)


def upgrade() -> None:
    """Create the tables."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Refuse: subscriptions, their positions and dead letters are stored nowhere else."""
    raise Irreversible("schema 0006 cannot be taken back: all webhooks, with their secrets and dead letters, would go")
