"""Regular jobs when the wall clock is set: the scheduler's clock here is one of the test's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.schedulers import base

from app.processes.regular import RegularJobs

pytestmark = pytest.mark.anyio


class Wall(datetime):
    """A wall clock that can be set."""

    set_by = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) + cls.set_by


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> type[Wall]:
    monkeypatch.setattr(base, "datetime", Wall)
    monkeypatch.setattr(Wall, "set_by", timedelta())
    return Wall


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def turns(calls: list[float], count: int, within_s: float) -> bool:
    """Tell whether so many more calls come in this time."""
    enough = len(calls) + count
    for _ in range(int(within_s / 0.05)):
        if len(calls) >= enough:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(days=-400), timedelta(hours=1)])
async def test_jobs_go_on_when_the_wall_clock_is_set(wall: type[Wall], step: timedelta) -> None:
    calls: list[float] = []

    async def tick() -> None:
        calls.append(asyncio.get_running_loop().time())

    jobs = RegularJobs(lambda: wall.now(UTC))
    jobs.add(1, tick)
    jobs.scheduler.start()
    try:
        assert await turns(calls, 2, 20)
        wall.set_by = step
        if step < timedelta():
            assert not await turns(calls, 2, 3), "the scheduler follows the wall clock"
        jobs.look()
        assert await turns(calls, 3, 20)
        assert len(calls) < 30, "what was left out is not made up for"
    finally:
        jobs.scheduler.shutdown(wait=False)


async def test_the_watch_looks_by_itself(wall: type[Wall]) -> None:
    calls: list[float] = []

    async def tick() -> None:
        calls.append(0.0)

    jobs = RegularJobs(lambda: wall.now(UTC))
    jobs.add(1, tick)
    jobs.scheduler.start()
    keeping = asyncio.create_task(jobs.keep())
    try:
        assert await turns(calls, 1, 20)
        wall.set_by = timedelta(hours=-1)
        assert await turns(calls, 3, 20)
    finally:
        keeping.cancel()
        jobs.scheduler.shutdown(wait=False)


async def test_a_clock_that_only_drifts_changes_no_plan(wall: type[Wall]) -> None:
    async def tick() -> None:
        """Nothing."""

    ticks = [0.0]
    jobs = RegularJobs(lambda: datetime.fromtimestamp(1000 + ticks[0] * 1.0005, UTC), lambda: ticks[0])
    jobs.add(60, tick)
    jobs.scheduler.start(paused=True)
    try:
        planned = [job.next_run_time for job in jobs.scheduler.get_jobs()]
        for _ in range(1000):
            ticks[0] += 1.0
            jobs.look()
        assert [job.next_run_time for job in jobs.scheduler.get_jobs()] == planned
        ticks[0] += 1.0
        jobs._wall = lambda: datetime.fromtimestamp(0, UTC)
        jobs.look()
        assert [job.next_run_time for job in jobs.scheduler.get_jobs()] == [datetime.fromtimestamp(0, UTC)]
    finally:
        jobs.scheduler.shutdown(wait=False)
