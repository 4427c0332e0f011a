"""A small index of notices, to find those of an instance without a scan of the log."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_ON = """
event (cloud_id, instance_id, seq)
WHERE kind IN ('eviction_scheduled', 'eviction_confirmed', 'eviction_overdue', 'eviction_risk')
"""


def upgrade() -> None:
    """Index notices by instance. Logs without notices cost nothing more."""
    build_index("event_notice", _ON)


def downgrade() -> None:
    """Drop the index; only speed is lost."""
    drop_index("event_notice")
