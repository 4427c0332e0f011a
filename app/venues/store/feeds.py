"""The last polls of each venue's feed, in the database: any process tells them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.platform.database.database import Database

_NOTE = """
INSERT INTO venue_feed (venue_id, provider, region, polled_at, succeeded_at, failures, error)
VALUES (%(venue)s, %(provider)s, %(region)s, now(), CASE WHEN %(error)s::text IS NULL THEN now() END,
    CASE WHEN %(error)s::text IS NULL THEN 0 ELSE 1 END, %(error)s)
ON CONFLICT (venue_id) DO UPDATE SET provider = excluded.provider, region = excluded.region, polled_at = now(),
    succeeded_at = coalesce(excluded.succeeded_at, venue_feed.succeeded_at),
    failures = CASE WHEN excluded.error IS NULL THEN 0 ELSE venue_feed.failures + 1 END, error = excluded.error
"""
_OF = """
SELECT provider, region, polled_at, succeeded_at, failures, error FROM venue_feed WHERE venue_id = %(venue)s
"""
_AGES = """
SELECT name, extract(epoch FROM now() - coalesce(succeeded_at, created_at))::float8, failures
FROM venue_feed JOIN venue ON id = venue_id
"""


@dataclass(frozen=True, slots=True)
class StoredFeed:
    """A feed. `failures` counts the polls that failed since the last that succeeded; `error` is of the last one."""

    provider: str
    region: str
    polled_at: datetime
    succeeded_at: datetime | None
    failures: int
    error: str | None


@dataclass(frozen=True, slots=True)
class FeedAge:
    """The time since a venue's feed last succeeded, and how often it failed since."""

    venue: str
    age_s: float
    failures: int


class FeedStore:
    """Feeds of venues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, venue_id: int, provider: str, region: str, error: str | None) -> None:
        """Note that a feed was polled, and the error if it failed."""
        asked = {"venue": venue_id, "provider": provider, "region": region, "error": error}
        await self._database.execute(_NOTE, asked)

    async def of(self, venue_id: int) -> StoredFeed | None:
        """Return a venue's feed, None if nobody follows it."""
        rows = await self._database.execute(_OF, {"venue": venue_id})
        return StoredFeed(*rows[0]) if rows else None

    async def ages(self) -> list[FeedAge]:
        """Return how old each feed is."""
        return [FeedAge(*row) for row in await self._database.execute(_AGES)]
