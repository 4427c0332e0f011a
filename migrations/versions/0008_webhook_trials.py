"""Tests of webhooks, requested by an API process and sent by a worker."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_STATEMENT = """
CREATE TABLE webhook_trial (
    webhook_id bigint NOT NULL CONSTRAINT webhook_trial_pkey PRIMARY KEY
        CONSTRAINT webhook_trial_webhook_id_fkey REFERENCES webhook (id) ON DELETE CASCADE,
    asked_at timestamptz NOT NULL,
    answered_at timestamptz,
    status integer,
    error text
)
"""


def upgrade() -> None:
    """Add the newest test of each webhook."""
    op.execute(_STATEMENT)


def downgrade() -> None:
    """Drop the newest test of each webhook, and the answer to it."""
    op.execute("DROP TABLE webhook_trial")
