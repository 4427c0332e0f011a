"""The worker as it runs: what falls due is asked for, whatever goes wrong at that moment."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
from faults.proxy import Link
from servers import on_database
from sqlalchemy.engine import make_url

from app.domain.events import CloudCreated, Recorded
from app.domain.times import SECOND_US
from app.domain.values import Clock, Policy, RunCause
from app.forecasts.rules import Run, RunStatus
from app.forecasts.store.runs import Runs
from app.platform.database.database import Database
from app.platform.database.migrating import upgrade
from app.platform.settings import Settings
from app.processes.worker import run_worker
from app.scheduling.store.clouds import Clouds

pytestmark = pytest.mark.anyio


def now_us() -> int:
    return time.time_ns() // 1000


@asynccontextmanager
async def working(database_url: str, timeout_s: float = 1) -> AsyncIterator[None]:
    task = asyncio.create_task(run_worker(Settings(database_url=database_url, database_timeout_s=timeout_s)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_us(at_us: int) -> None:
    await asyncio.sleep((at_us - now_us()) / SECOND_US)


async def first_run(database: Database, cloud_id: int) -> Run:
    for _ in range(100):
        if runs := await Runs(database).page(cloud_id, 1):
            return runs[0]
        await asyncio.sleep(0.1)
    raise AssertionError("nothing was asked for")


async def hold_the_loop(_database: Database) -> None:
    time.sleep(3)  # noqa: ASYNC251 - that is the trouble


async def hold_the_tables(database: Database) -> None:
    """No statement that reads tables is answered in time."""
    async with database.transaction() as session:
        await session.execute("LOCK TABLE quantile_table IN ACCESS EXCLUSIVE MODE")
        await session.execute("SELECT pg_sleep(3)")


@pytest.mark.parametrize("trouble", [hold_the_loop, hold_the_tables])
async def test_a_table_that_falls_due_in_a_bad_moment_is_asked_for_soon_after(
    database_url: str, database: Database, trouble: Callable[[Database], Awaitable[None]]
) -> None:
    due_us = now_us() + 6 * SECOND_US
    # The one whole multiple of this interval that lies near: the next is half a century away.
    policy = Policy(recompute_every_us=due_us, sample_count=10)
    created = Recorded(1, CloudCreated(at_us=now_us(), policy=policy))
    cloud_id = await Clouds(database).create(trouble.__name__, created)
    async with working(database_url):
        await until_us(due_us - SECOND_US)
        assert await Runs(database).page(cloud_id, 10) == []
        await trouble(database)
        run = await first_run(database, cloud_id)
    assert (run.cause, run.due_us) == (RunCause.SCHEDULED, due_us)


# Waits until each has ended: whoever asks next finds its connection closed, and opens another.
_CUT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
AND EXISTS (SELECT FROM pg_locks WHERE relation = 'quantile_table'::regclass AND NOT granted)
"""


def cut_off_while_publishing(database_url: str, locked: threading.Event) -> None:
    """End every connection to the database while a worker waits to write its table."""
    with psycopg.connect(database_url) as connection:
        connection.execute("LOCK TABLE quantile_table IN EXCLUSIVE MODE")
        locked.set()
        for _ in range(600):
            if connection.execute(_CUT).fetchall():
                return
            time.sleep(0.1)
    raise AssertionError("nothing was published")


async def succeeded(database: Database, cloud_id: int, number: int) -> Run:
    for _ in range(1800):
        run = await Runs(database).get(cloud_id, number)
        assert run is not None
        if run.status == RunStatus.SUCCEEDED:
            return run
        await asyncio.sleep(0.05)
    raise AssertionError(f"not done: {run}")


async def waits_to_publish(database: Database) -> None:
    for _ in range(600):
        if await database.execute("SELECT FROM pg_locks WHERE relation = 'quantile_table'::regclass AND NOT granted"):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("nothing was published")


@pytest.mark.long
async def test_outages_of_the_database_do_not_end_a_run_for_good(external_server: str) -> None:
    """The worker cannot tell the database that an outage ended its attempt, before the outage has ended."""
    url = make_url(on_database(external_server, "postgres"))
    await asyncio.to_thread(upgrade, url.render_as_string(hide_password=False))
    assert url.port is not None
    link = Link("worker", url.port)
    through = url.set(host="127.0.0.1", port=await link.listen()).render_as_string(hide_password=False)
    database = Database(url.render_as_string(hide_password=False))
    policy = Policy(clock=Clock.EXTERNAL, sample_count=10)
    cloud_id = await Clouds(database).create("outages", Recorded(1, CloudCreated(at_us=0, policy=policy)))
    async with working(through, timeout_s=30):
        async with await psycopg.AsyncConnection.connect(external_server) as locking:
            await locking.execute("LOCK TABLE quantile_table IN EXCLUSIVE MODE")
            run = await Runs(database).request(cloud_id, RunCause.EXTERNAL_CLOCK, SECOND_US)
            for _ in range(6):
                await waits_to_publish(database)
                link.obey({"rule": "refuse"})
                await asyncio.sleep(2)
                link.obey({"rule": "pass"})
        run = await succeeded(database, cloud_id, run.number)
    link.obey({"rule": "cut"})
    await database.close()
    assert (run.attempts, run.epoch) == (1, 1)


async def test_a_run_that_only_the_database_disturbed_is_tried_again_at_once(
    database_url: str, database: Database
) -> None:
    policy = Policy(clock=Clock.EXTERNAL, sample_count=10)
    cloud_id = await Clouds(database).create("disturbed", Recorded(1, CloudCreated(at_us=0, policy=policy)))
    async with working(database_url):
        first = await Runs(database).request(cloud_id, RunCause.EXTERNAL_CLOCK, SECOND_US)
        await succeeded(database, cloud_id, first.number)
        for number in (2, 3, 4):
            locked = threading.Event()
            cutting = asyncio.create_task(asyncio.to_thread(cut_off_while_publishing, database_url, locked))
            assert await asyncio.to_thread(locked.wait, 20)
            run = await Runs(database).request(cloud_id, RunCause.EXTERNAL_CLOCK, number * SECOND_US)
            await cutting
            cut_s = time.monotonic()
            run = await succeeded(database, cloud_id, run.number)
            assert time.monotonic() - cut_s < 8, "a run that fails by itself waits for 30 s"
            assert run.epoch == number


def publish_first(database_url: str, cloud_id: int, begun: threading.Event) -> None:
    """Be a worker that has the lock now, and publishes the next table just before another one does."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO quantile_table (cloud_id, epoch, epoch_us, seq, data, wall_s) "
            "SELECT cloud_id, epoch + 1, epoch_us, seq, data, wall_s FROM quantile_table WHERE cloud_id = %s",
            [cloud_id],
        )
        begun.set()
        for _ in range(600):
            if connection.execute("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").fetchall():
                return
            time.sleep(0.1)
    raise AssertionError("nothing was published")


async def test_a_run_that_lost_its_lock_to_a_faster_worker_is_tried_again_at_once(
    database_url: str, database: Database
) -> None:
    policy = Policy(clock=Clock.EXTERNAL, sample_count=10)
    cloud_id = await Clouds(database).create("overtaken", Recorded(1, CloudCreated(at_us=0, policy=policy)))
    async with working(database_url):
        first = await Runs(database).request(cloud_id, RunCause.EXTERNAL_CLOCK, SECOND_US)
        await succeeded(database, cloud_id, first.number)
        begun = threading.Event()
        overtaking = asyncio.create_task(asyncio.to_thread(publish_first, database_url, cloud_id, begun))
        assert await asyncio.to_thread(begun.wait, 20)
        run = await Runs(database).request(cloud_id, RunCause.EXTERNAL_CLOCK, 2 * SECOND_US)
        await overtaking
        run = await succeeded(database, cloud_id, run.number)
        assert (run.attempts, run.epoch) == (1, 3)
