"""Health of the service: its database, and the freshness of each cloud's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.forecasts.store.tables import Tables
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog


@dataclass(frozen=True, slots=True)
class Readiness:
    """A cloud's newest table: its epoch, and how long ago it was published; None before the first."""

    cloud: str
    epoch: int | None
    computed_at: datetime | None
    age_s: float | None


class HealthCheck:
    """Checks that the service can work. `now` is the server's clock."""

    def __init__(
        self, database: Database, clouds: Clouds, log: EventLog, tables: Tables, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._log = log
        self._clouds = clouds
        self._tables = tables
        self._now = now

    async def check_ready(self) -> None:
        """Raise LogUnavailable without the database, LogNewer if this process is too old for it or for a log."""
        await check_agreement(self._database)
        await self._log.check_all_readable()

    async def readiness(self) -> list[Readiness]:
        """Return the newest table of every cloud."""
        return [await self._readiness(name, cloud_id) for name, cloud_id in (await self._clouds.list()).items()]

    async def _readiness(self, name: str, cloud_id: int) -> Readiness:
        newest = await self._tables.page(cloud_id, 1)
        if not newest:
            return Readiness(name, None, None, None)
        computed_at = newest[0].computed_at
        return Readiness(name, newest[0].epoch, computed_at, (self._now() - computed_at).total_seconds())
