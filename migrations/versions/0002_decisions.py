"""Small indexes of the event log, so that what was decided can be told without reading the log."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STATEMENTS = (
    "CREATE INDEX event_rejected ON event (cloud_id, seq) WHERE kind = 'instance_rejected'",
    "CREATE INDEX event_evicted ON event (cloud_id, seq) WHERE kind = 'instance_evicted'",
    "CREATE INDEX event_policy ON event (cloud_id, seq) WHERE kind IN ('cloud_created', 'policy_changed')",
    "CREATE INDEX event_flavor ON event (cloud_id, (data->>'flavor')) WHERE kind = 'flavor_added'",
)


def upgrade() -> None:
    """Index what is looked for by its kind and rare; the many, accepted starts and stops, cost nothing more."""
    for statement in _STATEMENTS:
        op.execute(statement)
