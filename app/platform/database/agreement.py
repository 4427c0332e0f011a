"""Agreement between processes of different versions. It is checked while they run, since it may change meanwhile."""

from __future__ import annotations

import migrations
from app.domain.errors import LogNewer, LogUnavailable
from app.platform.database.database import Database, Rows, is_missing
from app.platform.database.migrating import Standing, check_not_newer

_READ = "SELECT (SELECT version_num FROM alembic_version), runs_from, log_format FROM agreement"
_REVISION = "SELECT version_num FROM alembic_version"


async def check_agreement(database: Database) -> None:
    """Read the log format that is in force. Raise LogUnavailable if it cannot be read.

    Raises LogNewer if the database has become too new for this process, and LogUnavailable if it has the schema of an
    older version. The process then leaves all clouds alone.
    """
    rows = await _read(database)
    if not rows:
        raise LogUnavailable("the database holds no agreement between versions: it is being put back, or damaged")
    standing = Standing(*rows[0])
    try:
        check_not_newer(standing)
        _check_not_older(standing.revision)
    except (LogNewer, LogUnavailable) as error:
        database.newer.leave_all(error)
        raise
    database.newer.leave_all(None)
    database.newer.log_format = standing.log_format


async def _read(database: Database) -> Rows:
    try:
        return await database.execute(_READ)
    except LogUnavailable as error:
        if is_missing(error):
            await _check_before_agreements(database)
        raise


async def _check_before_agreements(database: Database) -> None:
    """Raise LogUnavailable if the schema is so old that it knows of no agreement."""
    rows = await database.execute(_REVISION)
    try:
        _check_not_older(rows[0][0] if rows else None)
    except LogUnavailable as error:
        database.newer.leave_all(error)
        raise


def _check_not_older(revision: str | None) -> None:
    """Raise LogUnavailable if the schema lacks what this program uses: it can only come from a backup."""
    if revision is not None and revision < migrations.newest():
        raise LogUnavailable(
            f"the database has schema {revision} of an older version of Tenure, as from a backup, and this version "
            f"needs {migrations.newest()}: tenure db upgrade brings it forward"
        )
