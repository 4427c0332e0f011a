"""Health of the service: its database, and the freshness of each cloud's table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.domain.errors import LogBroken, LogUnavailable
from app.domain.times import SECOND_US
from app.domain.values import Clock
from app.forecasts.store.tables import Tables
from app.platform.background import check_background
from app.platform.clock import ServerClock
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.once import Shared
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

_GOOD_FOR_S = 1.0
_READ_ONLY = "SELECT current_setting('transaction_read_only') = 'on' FROM agreement"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A cloud's newest table: its epoch, when it was published, and its age; None before the first.

    `age_s` is by the cloud's own clock, from the end of the table's history on, as quotes go stale by it.
    `log_ahead_s` is how far the log's time is ahead of the server's; None with an external clock, and for a broken log.
    """

    cloud: str
    epoch: int | None
    computed_at: datetime | None
    age_s: float | None
    log_ahead_s: float | None


class HealthCheck:
    """Checks that the service can work."""

    def __init__(self, database: Database, clouds: Clouds, log: EventLog, tables: Tables, clock: ServerClock) -> None:
        self._database = database
        self._log = log
        self._clouds = clouds
        self._tables = tables
        self._clock = clock
        self._shared = Shared(self._all, _GOOD_FOR_S)
        self._checks = Shared(self._check)
        self._newcomers = Shared(self._check_newcomer, _GOOD_FOR_S)

    async def check_ready(self) -> None:
        """Raise LogUnavailable without the database, LogNewer if this process is too old for it or for a log.

        Raises TaskFailing if one of its background tasks keeps failing.
        """
        await self._checks.get()

    async def _check(self) -> None:
        await check_agreement(self._database)
        await self._newcomers.get()
        self._database.shortage.check()
        await self._log.check_all_readable()
        check_background()

    async def _check_newcomer(self) -> None:
        """Raise LogUnavailable if the database refuses a new connection, or all writes.

        Connections that are open answer reads from memory even where the server cannot reach its files any more.
        """
        async with self._database.connection() as newcomer:
            rows = await newcomer.execute(_READ_ONLY)
        if any(is_read_only for (is_read_only,) in rows):
            raise LogUnavailable("the database takes no writes: it is a standby, or set to read only")

    async def readiness(self) -> list[Readiness]:
        """Return the newest table of every cloud, as it was at most a second ago."""
        return await self._shared.get()

    async def _all(self) -> list[Readiness]:
        return [await self._readiness(name, cloud_id) for name, cloud_id in (await self._clouds.list()).items()]

    async def _readiness(self, name: str, cloud_id: int) -> Readiness:
        newest = await self._tables.page(cloud_id, 1)
        present_us, ahead_s = await self._present(cloud_id)
        if not newest:
            return Readiness(name, None, None, None, ahead_s)
        age_s = max(0, present_us - newest[0].epoch_us) / SECOND_US
        return Readiness(name, newest[0].epoch, newest[0].computed_at, age_s, ahead_s)

    async def _present(self, cloud_id: int) -> tuple[int, float | None]:
        """Return the cloud's present time, and how far its log is ahead of the server's clock."""
        (seq, at_us), now_us = await self._log.end(cloud_id), self._clock.now_us()
        try:
            policy = await self._log.policy_at(cloud_id, seq)
        except LogBroken:  # every request about this cloud says so; the others are not concerned
            return max(now_us, at_us), None
        if policy.clock is Clock.EXTERNAL:
            return at_us, None
        return max(now_us, at_us), max(0, at_us - now_us) / SECOND_US
