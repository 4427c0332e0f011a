"""Tests of webhooks: for each webhook the latest request for a test, and the receiver's answer to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from app.platform.database.database import Database

_ASK = """
INSERT INTO webhook_trial (webhook_id, asked_at) VALUES (%(id)s, clock_timestamp())
ON CONFLICT (webhook_id) DO UPDATE SET asked_at = EXCLUDED.asked_at, answered_at = NULL, status = NULL, error = NULL
RETURNING asked_at
"""
_OPEN = """
SELECT webhook.id, cloud.name, webhook.url, webhook.secret, trial.asked_at
FROM webhook_trial trial JOIN webhook ON webhook.id = trial.webhook_id
JOIN cloud ON cloud.id = webhook.cloud_id AND NOT cloud.importing
WHERE trial.answered_at IS NULL AND trial.asked_at > now() - make_interval(secs => %(newer_than_s)s)
"""
_ANSWER = """
UPDATE webhook_trial SET answered_at = clock_timestamp(), status = %(status)s, error = %(error)s
WHERE webhook_id = %(id)s AND asked_at = %(asked_at)s
"""
_ANSWERED = """
SELECT status, error FROM webhook_trial
WHERE webhook_id = %(id)s AND asked_at >= %(asked_at)s AND answered_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """A test that has not been sent yet, with all that sending takes."""

    webhook_id: int
    cloud: str
    url: str
    secret: str = field(repr=False)
    asked_at: datetime


class Trials:
    """The tests of all webhooks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ask(self, webhook_id: int) -> datetime:
        """Request a test from a worker, in place of an earlier one; return the time of the request."""
        (row,) = await self._database.execute(_ASK, {"id": webhook_id})
        asked_at: datetime = row.asked_at
        return asked_at

    async def open(self, newer_than_s: float) -> list[OpenTrial]:
        """Return the tests to be sent, without those whose callers have given up."""
        rows = await self._database.execute(_OPEN, {"newer_than_s": newer_than_s})
        return [OpenTrial(*row) for row in rows]

    async def answer(self, trial: OpenTrial, status: int | None, error: str | None) -> None:
        """Store the receiver's answer, unless another test was requested meanwhile."""
        parameters = {"id": trial.webhook_id, "asked_at": trial.asked_at, "status": status, "error": error}
        await self._database.execute(_ANSWER, parameters)

    async def answered(self, webhook_id: int, asked_at: datetime) -> tuple[int | None, str | None] | None:
        """Return status and error of a test requested at that time or later; None if there is no answer yet."""
        rows = await self._database.execute(_ANSWERED, {"id": webhook_id, "asked_at": asked_at})
        return (rows[0].status, rows[0].error) if rows else None
