"""Indexes that are built and dropped while others read and write."""

from __future__ import annotations

from alembic import op

_IS_INVALID = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"


def build_index(name: str, on: str) -> None:
    """Build an index while others read and write. One left by an interrupted build is rebuilt."""
    with op.get_context().autocommit_block():
        # The build takes no lock that blocks writers, so it may wait for them without limit.
        op.execute("SET lock_timeout = 0")
        if op.get_bind().exec_driver_sql(_IS_INVALID.format(name=name)).scalar():
            op.execute(f"DROP INDEX CONCURRENTLY {name}")
        op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}")
        op.execute("RESET lock_timeout")


def drop_index(name: str) -> None:
    """Drop an index while others read and write."""
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
