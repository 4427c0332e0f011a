"""Regular jobs of a worker, which go on whatever is done to the machine's wall clock.

APScheduler plans by the wall clock. If that is set back by an hour, every job would rest for an hour. So it is compared
with the monotonic clock each second, and when the two have parted, all jobs are planned anew from now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic

from apscheduler.schedulers.asyncio import AsyncIOScheduler

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_STEP_S = 1.0
"""Clocks that part by more than this between two looks were set; slewing takes at most a thousandth of the time."""
_JOB_DEFAULTS = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
"""A turn that comes late is late, and not left out: by default a second's delay would cost a job its turn."""


def wall_clock() -> datetime:
    """Return the machine's time."""
    return datetime.now(UTC)


class RegularJobs:
    """Jobs that are called every so many seconds.

    `wall` is the clock that the scheduler plans by, `ticks_s` one that goes on evenly, wherever it begins.
    """

    def __init__(self, wall: Callable[[], datetime] = wall_clock, ticks_s: Callable[[], float] = monotonic) -> None:
        self.scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=_JOB_DEFAULTS)
        self._wall = wall
        self._ticks_s = ticks_s
        self._offset_s = self._offset()

    def add(self, seconds: int, function: Callable[[], Awaitable[object]], *, at_once: int = 1) -> None:
        """Call the function every so many seconds, at first at once; `at_once` calls may run side by side."""
        self.scheduler.add_job(
            function,
            "interval",
            id=function.__name__,
            seconds=seconds,
            next_run_time=self._wall(),
            max_instances=at_once,
        )

    async def keep(self) -> None:
        """Follow steps of the wall clock until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Plan all jobs anew from now if the wall clock was set since the last look."""
        offset_s = self._offset()
        step_s, self._offset_s = offset_s - self._offset_s, offset_s
        if abs(step_s) > _STEP_S:
            logger.warning("the machine's clock was set by %.0f s: regular jobs are planned anew", step_s)
            for job in self.scheduler.get_jobs():
                job.modify(next_run_time=self._wall())

    def _offset(self) -> float:
        return self._wall().timestamp() - self._ticks_s()
