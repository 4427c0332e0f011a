"""Indexes of the decisions on longer lifetimes: by instance, and by what was asked for."""

from __future__ import annotations

from migrations.indexes import build_index, drop_index

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_KINDS = "WHERE kind IN ('instance_extended', 'extension_rejected')"
_INDEXES = {
    "event_extension": f"event (cloud_id, instance_id, seq) {_KINDS}",
    "event_extension_asked": f"event (cloud_id, instance_id, kind, ((data->>'lifetime_us')::bigint), at_us) {_KINDS}",
}


def upgrade() -> None:
    """Index events that are rare, and of which there are none yet."""
    for name, on in _INDEXES.items():
        build_index(name, on)


def downgrade() -> None:
    """Drop the indexes; only speed is lost."""
    for name in _INDEXES:
        drop_index(name)
