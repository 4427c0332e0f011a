"""Alembic's migrations; `app.store.migrating` runs them.

Each is a transaction by itself, and may be interrupted between two of its statements where it builds an index: so it
can be run again. Programs of the revision before go on while a migration runs and afterwards: it only adds, and what
they used and newer ones do not goes a version later. One that they cannot run on puts its own revision into
`agreement.runs_from`.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

FIRST_AGREED = "0001"
"""What a schema that is older than the agreement takes: it does not say."""
_IS_INVALID = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')"


class Irreversible(Exception):
    """The migration cannot be taken back without a loss; the message says of what."""


def revisions() -> list[str]:
    """All revisions, oldest first: files are named after theirs, NNNN_what.py."""
    return sorted(path.name.split("_")[0] for path in (Path(__file__).parent / "versions").glob("[0-9]*_*.py"))


def newest() -> str:
    """The newest revision."""
    return revisions()[-1]


def build_index(name: str, on: str) -> None:
    """Build an index while others read and write; one that an interrupted build left behind is built again."""
    with op.get_context().autocommit_block():
        # A build takes no lock that writers wait for: it may wait for them as long as they take.
        op.execute("SET lock_timeout = 0")
        if op.get_bind().exec_driver_sql(_IS_INVALID.format(name=name)).scalar():
            op.execute(f"DROP INDEX CONCURRENTLY {name}")
        op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}")
        op.execute("RESET lock_timeout")


def drop_index(name: str) -> None:
    """Drop an index while others read and write."""
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
