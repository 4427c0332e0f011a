"""Learned models of venues, and the runs that fit them.

The worker that fits a venue's model holds the venue's refit lock. So if the holder finds a run that is running, a
worker died and left it, and it is taken up again. A model and the end of its run are one transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from app.domain.times import DAY_US
from app.platform.database.database import Database
from app.venues.rules.rates import RevokedBy
from app.venues.rules.training import LEAST_KNOWN_US, TrainedSurvival, trained_of

REFIT_EVERY_US = 10 * DAY_US
_MAX_ATTEMPTS = 5
_FIRST_RETRY_S = 60.0
_REQUEST = f"""
INSERT INTO venue_refit (venue_id, until_us)
SELECT id, last_us / {DAY_US} * {DAY_US} FROM venue LEFT JOIN venue_model ON venue_id = id
WHERE revoked_by = '{RevokedBy.PRICE}' AND last_us - first_us >= {LEAST_KNOWN_US + DAY_US}
AND (trained_us IS NULL OR last_us / {DAY_US} * {DAY_US} - trained_us >= {REFIT_EVERY_US})
ON CONFLICT (venue_id, until_us) DO NOTHING
"""
_OPEN = "status IN ('pending', 'running') OR (status = 'failed' AND retry_at <= now())"
_PENDING = f"SELECT id, venue_id, until_us FROM venue_refit WHERE {_OPEN} ORDER BY id"
_START = f"""
UPDATE venue_refit SET status = CASE WHEN attempts < {_MAX_ATTEMPTS} THEN 'running' ELSE 'failed' END,
    error = CASE WHEN attempts < {_MAX_ATTEMPTS} THEN error ELSE 'the worker died in the last attempt' END,
    attempts = least(attempts + 1, {_MAX_ATTEMPTS}), started_at = now(), finished_at = NULL, retry_at = NULL
WHERE id = %(id)s AND ({_OPEN}) RETURNING status, started_at
"""
_STILL = "WHERE id = %(id)s AND status = 'running' AND started_at = %(started_at)s"
_FINISH = f"UPDATE venue_refit SET status = 'succeeded', error = NULL, finished_at = now() {_STILL} RETURNING venue_id"
_PUBLISH = """
INSERT INTO venue_model (venue_id, trained_us, body) VALUES (%(venue)s, %(trained_us)s, %(body)s::jsonb)
ON CONFLICT (venue_id) DO UPDATE
SET trained_us = excluded.trained_us, body = excluded.body, fitted_at = now()
WHERE venue_model.trained_us <= excluded.trained_us
"""
_FAIL = f"""
UPDATE venue_refit SET status = 'failed', error = %(error)s, finished_at = now(),
    retry_at = CASE WHEN attempts < {_MAX_ATTEMPTS}
        THEN now() + make_interval(secs => {_FIRST_RETRY_S} * 2 ^ (attempts - 1)) END
{_STILL}
"""


@dataclass(frozen=True, slots=True)
class Refit:
    """A run that fits the model of a venue to what was known at a time."""

    id: int
    venue_id: int
    until_us: int


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A venue's model, and when it was fitted."""

    trained: TrainedSurvival
    fitted_at: datetime


class VenueModels:
    """The models of all venues and their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request_due(self) -> None:
        """Request a run for each venue whose model is ten days behind its prices, or that has none."""
        await self._database.execute(_REQUEST)

    async def pending(self) -> list[Refit]:
        """Return the runs to execute, to retry, or perhaps left by a dead worker, oldest first."""
        return [Refit(*row) for row in await self._database.execute(_PENDING)]

    async def start(self, run: Refit) -> datetime | None:
        """Take up a run as the holder of its lock; return the attempt's beginning, None if it is not to be tried."""
        rows = await self._database.execute(_START, {"id": run.id})
        return rows[0].started_at if rows and rows[0].status == "running" else None

    async def finish(self, run: Refit, started_at: datetime, trained: TrainedSurvival | None) -> None:
        """Publish a run's model and end the run, unless another worker has taken it over.

        None: the past is too short for a model.
        """
        async with self._database.transaction() as session:
            mine = await session.execute(_FINISH, {"id": run.id, "started_at": started_at})
            if mine and trained is not None:
                body = json.dumps(trained.as_json())
                given = {"venue": run.venue_id, "trained_us": trained.until_us, "body": body}
                await session.execute(_PUBLISH, given)
                await session.execute("UPDATE venue SET version = version + 1 WHERE id = %(id)s", {"id": run.venue_id})

    async def fail(self, run: Refit, started_at: datetime, error: str) -> None:
        """Mark the attempt as failed. It is retried after a pause, unless it was the last."""
        await self._database.execute(_FAIL, {"id": run.id, "started_at": started_at, "error": error.replace("\0", "")})

    async def of(self, venue_id: int) -> StoredModel | None:
        """Return a venue's model, None before the first."""
        sql = "SELECT body, fitted_at FROM venue_model WHERE venue_id = %(venue)s"
        rows = await self._database.execute(sql, {"venue": venue_id})
        return StoredModel(trained_of(rows[0].body), rows[0].fitted_at) if rows else None
