"""Alembic's migrations, which app/platform/database/migrating.py runs.

Each is a transaction, except that one which builds an index may be interrupted between two statements and must be
repeatable. Programs of the previous revision continue to run during and after a migration, so it only adds; what newer
programs do not use is removed a version later. A migration that older programs cannot live with writes its own revision
to `agreement.runs_from`.
"""

from __future__ import annotations

from pathlib import Path

FIRST_AGREED = "0001"
"""The revision assumed for a schema older than the agreement, which does not name any."""


class Irreversible(Exception):
    """The migration cannot be reverted without a loss. The message says of what."""


def revisions() -> list[str]:
    """Return all revisions, oldest first. Files are named after theirs, NNNN_what.py."""
    return sorted(path.name.split("_")[0] for path in (Path(__file__).parent / "versions").glob("[0-9]*_*.py"))


def newest() -> str:
    """Return the newest revision."""
    return revisions()[-1]
