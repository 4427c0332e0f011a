"""Connections, time limits, errors and migrations, on the private server and on a separate one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from servers import ExternalServer, debian_binaries, on_database, run_sql

import migrations
from app.domain.errors import LogUnavailable
from app.domain.events import CloudCreated, InstanceStopped, Recorded
from app.domain.values import Policy
from app.platform.asked import asked_by, reading
from app.platform.database.database import ConstraintBroken, Database, parse_url
from app.platform.database.migrating import upgrade
from app.platform.database.schema import metadata
from app.platform.database.signals import Resync, listen
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

pytestmark = pytest.mark.anyio

FIRST = Recorded(1, CloudCreated(at_us=0, policy=Policy()))


@pytest.fixture(scope="module")
def own_server() -> Iterator[ExternalServer]:
    """A separate server that a test may stop, freeze and start as it likes, as long as it runs afterwards."""
    binaries = debian_binaries()
    directory = Path(tempfile.mkdtemp(prefix="tenure-own-"))
    server = ExternalServer(directory, binaries)
    server.initialise()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(directory)


@pytest.fixture
async def own_database(own_server: ExternalServer) -> AsyncIterator[Database]:
    await asyncio.to_thread(upgrade, own_server.url)
    database = Database(own_server.url, timeout_s=2)
    yield database
    await database.close()


async def unavailable_within(seconds: float, work: object) -> None:
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        await work  # type: ignore[misc]
    assert time.monotonic() - began < seconds


async def slow_transaction(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute("SELECT pg_sleep(30)")


class TestUrl:
    @pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
    def test_the_driver_is_always_psycopg(self, scheme: str) -> None:
        url = parse_url(f"{scheme}://u:p%40@h:5/d")
        assert (url.drivername, url.password, url.database) == ("postgresql+psycopg", "p@", "d")

    @pytest.mark.parametrize("text", ["sqlite:///x", "postgresql+asyncpg://h/d", "nonsense", ""])
    def test_other_databases_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="postgresql://"):
            parse_url(text)


class TestMigrations:
    def test_the_schema_is_what_the_code_says(self, database_url: str) -> None:
        engine = sqlalchemy.create_engine(parse_url(database_url))
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_server_default": True})
            assert compare_metadata(context, metadata) == []
        engine.dispose()

    def test_processes_that_start_at_once_take_turns(self, embedded_server: str) -> None:
        run_sql(embedded_server, "CREATE DATABASE tenure_at_once")
        url = on_database(embedded_server, "tenure_at_once")
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(upgrade, [url] * 4))
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrations.newest(),)]

    def test_no_server_is_said_so(self) -> None:
        with pytest.raises(LogUnavailable):
            upgrade("postgresql://127.0.0.1:1/nothing")

    async def test_a_person_can_read_the_log(self, database: Database) -> None:
        await Clouds(database).create("readable", FIRST)
        rows = await database.execute("SELECT cloud, seq, at::text, kind FROM event_readable WHERE cloud = 'readable'")
        assert [tuple(row) for row in rows] == [("readable", 1, "1970-01-01 00:00:00+00", "cloud_created")]


class TestSeparateServer:
    async def test_the_log_over_tcp(self, external_server: str) -> None:
        run_sql(external_server, "CREATE DATABASE over_tcp")
        url = on_database(external_server, "over_tcp")
        await asyncio.to_thread(upgrade, url)
        database = Database(url)
        cloud_id = await Clouds(database).create("tcp", FIRST)
        assert await EventLog(database).tail(cloud_id, 0, 10) == [FIRST]
        await database.close()


class TestLimits:
    async def test_nobody_there(self) -> None:
        database = Database("postgresql://127.0.0.1:1/nothing", timeout_s=2)
        await unavailable_within(10, database.execute("SELECT 1"))
        await unavailable_within(10, EventLog(database).append(1, [FIRST]))

    async def test_a_slow_statement_is_cut_off(self, database_url: str) -> None:
        database = Database(database_url, timeout_s=0.3)
        await unavailable_within(10, database.execute("SELECT pg_sleep(30)"))
        await unavailable_within(10, slow_transaction(database))
        assert (await database.execute("SELECT 7"))[0][0] == 7
        await database.close()

    async def test_no_connection_free(self, database_url: str) -> None:
        database = Database(database_url, timeout_s=0.3, pool_size=1)
        async with database.transaction():
            await unavailable_within(10, database.execute("SELECT 1"))
        assert (await database.execute("SELECT 7"))[0][0] == 7
        await database.close()

    @pytest.mark.parametrize("reads", [False, True])
    async def test_one_caller_has_few_connections(self, database_url: str, *, reads: bool) -> None:
        """Others and the logs do not wait for what waits in the database for one caller."""
        database = Database(database_url, timeout_s=20)

        async def wait(caller: str | None, seconds: float) -> None:
            asked_by(caller)
            with reading() if reads else nullcontext():
                await database.execute("SELECT pg_sleep(%(seconds)s)", {"seconds": seconds})

        slow = [asyncio.create_task(wait("many", 5)) for _ in range(20)]
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await asyncio.gather(wait("few", 0), wait("others", 0), wait(None, 0))
        assert time.monotonic() - began < 4
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await database.close()

    async def test_a_broken_constraint_says_which(self, database: Database) -> None:
        with pytest.raises(ConstraintBroken, match="snapshot_cloud_id_fkey"):
            await database.execute("INSERT INTO snapshot VALUES (-1, 1, 1, '', '')")

    async def test_errors_of_the_caller_pass_through(self, database: Database) -> None:
        async def fail() -> None:
            async with database.transaction():
                raise TimeoutError

        with pytest.raises(TimeoutError):
            await fail()


class TestLostServer:
    async def test_the_service_recovers_by_itself(self, own_server: ExternalServer, own_database: Database) -> None:
        log = EventLog(own_database)
        cloud_id = await Clouds(own_database).create("lost", FIRST)
        await asyncio.gather(*(log.last_seq(cloud_id) for _ in range(5)))
        own_server.stop()
        await unavailable_within(10, log.append(cloud_id, [Recorded(2, InstanceStopped(at_us=0, instance_id="a"))]))
        await unavailable_within(10, log.tail(cloud_id, 0, 10))
        own_server.start()
        await log.append(cloud_id, [Recorded(2, InstanceStopped(at_us=0, instance_id="b"))])
        assert [item.seq for item in await log.tail(cloud_id, 0, 10)] == [1, 2]

    async def test_a_restart_between_requests_is_not_noticed(
        self, own_server: ExternalServer, own_database: Database
    ) -> None:
        log = EventLog(own_database)
        cloud_id = await Clouds(own_database).create("restarted", FIRST)
        await asyncio.gather(*(log.last_seq(cloud_id) for _ in range(5)))
        own_server.stop()
        own_server.start()
        assert await asyncio.gather(*(log.last_seq(cloud_id) for _ in range(5))) == [1] * 5

    async def test_a_frozen_server_is_an_answer_too(self, own_server: ExternalServer, own_database: Database) -> None:
        log = EventLog(own_database)
        cloud_id = await Clouds(own_database).create("frozen", FIRST)
        processes = own_server.processes()
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        # 2 s for the statement, then the driver tries for at most 10 s to have it cancelled.
        await unavailable_within(14, log.append(cloud_id, [Recorded(2, InstanceStopped(at_us=0, instance_id="a"))]))
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        assert await log.last_seq(cloud_id) in {1, 2}

    async def test_listening_outlives_a_restart(self, own_server: ExternalServer, own_database: Database) -> None:
        notices = listen(own_database)
        assert await anext(notices) == Resync()
        own_server.stop()
        next_notice = asyncio.create_task(anext(notices))
        await asyncio.sleep(0.5)
        own_server.start()
        assert await asyncio.wait_for(next_notice, 10) == Resync()
        await notices.aclose()


def test_the_newest_revision_is_alembics_head():
    config = Config()
    config.set_main_option("script_location", migrations.__path__[0])
    assert ScriptDirectory.from_config(config).get_current_head() == migrations.newest()
