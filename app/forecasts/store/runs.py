"""Forecast runs in the database; see forecasts/rules.py for their states.

The worker that executes a run holds the cloud's forecast lock. So if the holder of the lock finds a run that is
running, a worker died and left it, and it is taken up again.
"""

from __future__ import annotations

from datetime import datetime

from app.domain.values import RunCause
from app.forecasts.rules import Run, RunStatus
from app.platform.database.database import Database, Session
from app.platform.database.signals import RunRequested, announce

_MAX_ATTEMPTS = 5
_FIRST_RETRY_S = 30.0


_COLUMNS = """
id, cloud_id, cause, due_us, status, attempts, error, epoch, created_at, started_at, finished_at, retry_at, number
"""
_INSERT = """
INSERT INTO forecast_run (cloud_id, cause, due_us) VALUES (%(cloud_id)s, %(cause)s, %(due_us)s)
ON CONFLICT (cloud_id, coalesce(due_us, -1)) WHERE status = 'pending' DO UPDATE SET cause = forecast_run.cause
RETURNING
"""
_OPEN = """
status IN ('pending', 'running') OR (status = 'failed' AND retry_at <= now())
"""
_IS_BUSY = """
SELECT EXISTS (SELECT FROM forecast_run WHERE cloud_id = %(cloud_id)s AND status IN ('pending', 'running'))
"""
_IS_OPEN = """
SELECT EXISTS (
    SELECT FROM forecast_run WHERE cloud_id = %(cloud_id)s AND due_us = %(due_us)s
    AND (status IN ('pending', 'running') OR retry_at IS NOT NULL)
)
"""
_START = f"""
UPDATE forecast_run SET
    status = CASE WHEN attempts < {_MAX_ATTEMPTS} THEN 'running' ELSE 'failed' END,
    error = CASE WHEN attempts < {_MAX_ATTEMPTS} THEN error ELSE 'the worker died in the last attempt' END,
    attempts = least(attempts + 1, {_MAX_ATTEMPTS}),
    started_at = now(), finished_at = NULL, retry_at = NULL
WHERE id = %(id)s AND ({_OPEN}) RETURNING status, started_at
"""
# A worker that stalled for long may have lost the run to another one.
_MINE = "status = 'running' AND started_at = %(started_at)s"
_STILL = f"WHERE id = %(id)s AND {_MINE}"
_FINISH = f"""
UPDATE forecast_run SET status = 'succeeded', epoch = %(epoch)s, error = NULL, finished_at = now() {_STILL}
"""
# Attempts that the database ended are not the run's failures, so they do not count. Before the database could be told,
# another worker may have taken the run up, and may have given it up because of this attempt: then it is tried again.
_DISTURB = f"""
UPDATE forecast_run SET attempts = greatest(attempts - 1, 0),
    status = CASE WHEN {_MINE} THEN 'failed' ELSE status END,
    error = CASE WHEN {_MINE} THEN %(error)s ELSE error END,
    finished_at = CASE WHEN {_MINE} THEN now() ELSE finished_at END,
    retry_at = CASE WHEN {_MINE} OR (status = 'failed' AND retry_at IS NULL)
        THEN now() + make_interval(secs => %(pause_s)s) ELSE retry_at END
WHERE id = %(id)s AND status IN ('running', 'failed')
"""
_FAIL = f"""
UPDATE forecast_run SET status = 'failed', error = %(error)s, finished_at = now(),
    retry_at = CASE WHEN attempts < {_MAX_ATTEMPTS}
        THEN now() + make_interval(secs => {_FIRST_RETRY_S} * 2 ^ (attempts - 1)) END
{_STILL}
"""


class Runs:
    """The forecast runs of all clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request(self, cloud_id: int, cause: RunCause, due_us: int | None) -> Run:
        """Request a run and signal the workers. If one with the same due time is pending, return that one."""
        async with self._database.transaction() as session:
            return await request_run(session, cloud_id, cause, due_us)

    async def is_open(self, cloud_id: int, due_us: int) -> bool:
        """Return True if the cloud's run of this due time is pending, running, or to be tried again."""
        rows = await self._database.execute(_IS_OPEN, {"cloud_id": cloud_id, "due_us": due_us})
        return bool(rows[0][0])

    async def is_busy(self, cloud_id: int) -> bool:
        """Return True if any run of the cloud is pending or running."""
        rows = await self._database.execute(_IS_BUSY, {"cloud_id": cloud_id})
        return bool(rows[0][0])

    async def pending(self) -> list[Run]:
        """Return all runs to execute, to retry, or perhaps left by a dead worker, oldest first."""
        rows = await self._database.execute(f"SELECT {_COLUMNS} FROM forecast_run WHERE {_OPEN} ORDER BY id")
        return [Run(*row) for row in rows]

    async def start(self, run_id: int) -> datetime | None:
        """Take up the run as the holder of its cloud's forecast lock, and return the attempt's beginning.

        No other attempt of the run has the same. Returns None if the run is done, or not to be tried.
        """
        rows = await self._database.execute(_START, {"id": run_id})
        return rows[0].started_at if rows and rows[0].status == RunStatus.RUNNING else None

    async def finish(self, run_id: int, started_at: datetime, epoch: int) -> None:
        """Mark the run as succeeded with the table of this epoch, unless another worker has taken it over."""
        await self._database.execute(_FINISH, {"id": run_id, "started_at": started_at, "epoch": epoch})

    async def fail(self, run_id: int, started_at: datetime, error: str) -> None:
        """Mark the attempt as failed. The run is retried after a pause, unless this was the last attempt.

        Nothing changes if another worker has taken the run over.
        """
        await self._database.execute(_FAIL, {"id": run_id, "started_at": started_at, "error": error.replace("\0", "")})

    async def disturb(self, run_id: int, started_at: datetime, error: str, pause_s: float) -> None:
        """Mark the attempt as ended by the database: it does not count, and the run is tried again after the pause.

        If another worker has taken the run over, the attempt is taken off the count alone.
        """
        parameters = {"id": run_id, "started_at": started_at, "error": error.replace("\0", ""), "pause_s": pause_s}
        await self._database.execute(_DISTURB, parameters)

    async def get(self, cloud_id: int, number: int) -> Run | None:
        """Return the cloud's run with this number, or None."""
        rows = await self._database.execute(
            f"SELECT {_COLUMNS} FROM forecast_run WHERE cloud_id = %(cloud_id)s AND number = %(number)s",
            {"cloud_id": cloud_id, "number": number},
        )
        return Run(*rows[0]) if rows else None

    async def page(self, cloud_id: int, limit: int, before: int | None = None) -> list[Run]:
        """Return the newest runs before a number, newest first, at most `limit`."""
        rows = await self._database.execute(
            f"SELECT {_COLUMNS} FROM forecast_run WHERE cloud_id = %(cloud_id)s "
            "AND (%(before)s::bigint IS NULL OR number < %(before)s) ORDER BY number DESC LIMIT %(limit)s",
            {"cloud_id": cloud_id, "before": before, "limit": limit},
        )
        return [Run(*row) for row in rows]


async def request_run(session: Session, cloud_id: int, cause: RunCause, due_us: int | None) -> Run:
    """Request a run like `Runs.request`, when the session's transaction commits."""
    rows = await session.execute(f"{_INSERT} {_COLUMNS}", {"cloud_id": cloud_id, "cause": str(cause), "due_us": due_us})
    run = Run(*rows[0])
    await announce(session, RunRequested(cloud_id, run.id))
    return run
