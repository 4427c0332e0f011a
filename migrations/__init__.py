"""Alembic's migrations, which app/platform/database/migrating.py runs.

Each is a transaction, except that one which builds an index may be interrupted between two statements and must be
repeatable. Programs of the previous revision continue to run during and after a migration, so it only adds; what newer
programs do not use is removed a version later. A migration that older programs cannot live with writes its own revision
to `agreement.runs_from`.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

FIRST_AGREED = "0001"
"""The revision assumed for a schema older than the agreement, which does not name any."""
_IS_INVALID = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"


class Irreversible(Exception):
    """The migration cannot be reverted without a loss. The message says of what."""


def revisions() -> list[str]:
    """Return all revisions, oldest first. Files are named after theirs, NNNN_what.py."""
    return sorted(path.name.split("_")[0] for path in (Path(__file__).parent / "versions").glob("[0-9]*_*.py"))


def newest() -> str:
    """Return the newest revision."""
    return revisions()[-1]


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
