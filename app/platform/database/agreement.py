"""Agreement between processes of different versions. It is checked while they run, since it may change meanwhile."""

from __future__ import annotations

from app.domain.errors import LogNewer, LogUnavailable
from app.platform.database.database import Database
from app.platform.database.migrating import Standing, check_not_newer

_READ = "SELECT (SELECT version_num FROM alembic_version), runs_from, log_format FROM agreement"


async def check_agreement(database: Database) -> None:
    """Read the log format that is in force. Raise LogUnavailable if it cannot be read.

    Raises LogNewer if the database has become too new for this process, which then leaves all clouds alone.
    """
    rows = await database.execute(_READ)
    if not rows:
        raise LogUnavailable("the database holds no agreement between versions: it is being put back, or damaged")
    standing = Standing(*rows[0])
    try:
        check_not_newer(standing)
    except LogNewer as error:
        database.newer.leave_all(str(error))
        raise
    database.newer.leave_all(None)
    database.newer.log_format = standing.log_format
