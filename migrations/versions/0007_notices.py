"""A small index of notices, so that an instance's can be told without reading the log."""

from __future__ import annotations

from migrations import build_index, drop_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_ON = """
event (cloud_id, instance_id, seq)
WHERE kind IN ('eviction_scheduled', 'eviction_confirmed', 'eviction_overdue', 'eviction_risk')
"""


def upgrade() -> None:
    """Index notices by the instance that they concern; a log without any pays nothing for it."""
    build_index("event_notice", _ON)


def downgrade() -> None:
    """Nothing is lost but speed."""
    drop_index("event_notice")
