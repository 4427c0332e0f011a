"""Processes that stand still, or whose host is gone, hold up the others for a bounded time only."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

import psycopg
import pytest
from servers import ExternalServer, debian_binaries, on_database
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from test_scheduler import Process, make_cloud, on_demand, running

from app.domain.errors import LogUnavailable
from app.platform.database.database import Database
from app.platform.database.lockids import DELIVERY_LOCK
from app.platform.database.locks import LockPauses, Locks
from app.platform.database.migrating import at_last, upgrade
from app.scheduling.store.conflicts import TurnLost
from app.scheduling.store.log import EventLog

pytestmark = pytest.mark.anyio
PAUSES = LockPauses(lost_after_s=3.0, beat_s=0.6)
"""Shorter than a process's own, so that little is waited for."""
LONGEST_S = 3.0
_HOLDER = """
import asyncio, sys
from app.domain.events import InstanceRejected, Recorded
from app.domain.values import Market, Rejection
from app.platform.database.database import Database
from app.platform.database.locks import LockPauses, Locks
from app.platform.database.lockids import DELIVERY_LOCK
from app.scheduling.store.log import EventLog

async def main(url, what, cloud_id):
    database = Database(url)
    log = EventLog(database)
    if what == "lock":
        async with Locks(database, LockPauses(3.0, 0.6)).held(DELIVERY_LOCK) as hold:
            assert hold is not None
            print("holds", flush=True)
            await asyncio.sleep(60)
    async with log.locked(cloud_id) as turn:
        if what == "inserted":
            event = InstanceRejected(at_us=10**12, instance_id="stopped", market=Market.ON_DEMAND, flavor="c1",
                                     reason=Rejection.NO_CAPACITY)
            await turn.append(cloud_id, [Recorded(await turn.last_seq(cloud_id) + 1, event)])
        print("holds", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


_COPY_LAST = b"""
INSERT INTO event (cloud_id, seq, kind, version, data) SELECT cloud_id, $2::bigint, kind, version,
jsonb_set(data, '{instance_id}', '"silent"') FROM event WHERE cloud_id = $1::bigint AND seq = $2::bigint - 1
"""
_HOLDING = "SELECT FROM pg_stat_activity WHERE pid = %(pid)s AND backend_xid IS NOT NULL AND wait_event = 'ClientRead'"


@pytest.fixture
def holders() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def hold_and_stop(holders: list[subprocess.Popen[str]], url: str, what: str, cloud_id: int = 0) -> None:
    """Start a process that holds something, and stop it there (SIGSTOP)."""
    command = [sys.executable, "-c", _HOLDER, url, what, str(cloud_id)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    holders.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("what", ["turn", "inserted"])
async def test_a_process_that_is_stopped_in_its_turn_holds_up_the_others_for_a_short_time(
    database: Database, database_url: str, holders: list[subprocess.Popen[str]], what: str
):
    async with running(Process(database, lambda: 10**12)) as process:
        name = await make_cloud(process, nodes=3)
        cloud_id = await process.scheduler.cloud_id(name)
        await process.scheduler.start(name, on_demand("first"))  # compiles, where nothing has yet
        sequencer = await process.scheduler._sequencer(name)
        sequencer._appender._take_turns_until = time.monotonic() + 60
        hold_and_stop(holders, database_url, what, cloud_id)
        began = time.monotonic()
        for number in range(5):
            assert (await process.scheduler.start(name, on_demand(f"i-{number}"))).decision.node is not None
        assert time.monotonic() - began < LONGEST_S
        assert "stopped" not in await process.log.starts(cloud_id, ["stopped"])


async def test_a_link_that_goes_silent_before_the_end_of_an_append_holds_up_the_others_for_a_short_time(
    database: Database, database_url: str
):
    """The server has run the statement, and waits for the bytes that end it: that is no idle transaction for it."""
    async with running(Process(database, lambda: 10**12)) as process:
        name = await make_cloud(process, nodes=3)
        cloud_id = await process.scheduler.cloud_id(name)
        await process.scheduler.start(name, on_demand("first"))  # compiles, where nothing has yet
        seq = await process.log.last_seq(cloud_id) + 1
        with closing(psycopg.connect(database_url, application_name="tenure")) as silent:
            silent.pgconn.enter_pipeline_mode()
            values = [str(value).encode() for value in (cloud_id, seq)]
            silent.pgconn.send_query_params(_COPY_LAST, values)
            silent.pgconn.send_flush_request()
            silent.pgconn.flush()
            for _ in range(1000):
                if await database.execute(_HOLDING, {"pid": silent.pgconn.backend_pid}):
                    break
                await asyncio.sleep(0.01)
            began = time.monotonic()
            assert (await process.scheduler.start(name, on_demand("second"))).decision.node is not None
            assert time.monotonic() - began < LONGEST_S
            assert await process.log.last_seq(cloud_id) == seq


async def test_a_turn_that_lasts_too_long_is_taken_back(process_log: tuple[EventLog, int]):
    log, cloud_id = process_log

    async def think_too_long() -> None:
        async with log.locked(cloud_id) as turn:
            await asyncio.sleep(2.6)
            await turn.last_seq(cloud_id)

    with pytest.raises(TurnLost):
        await think_too_long()


@pytest.fixture
async def process_log(database: Database) -> tuple[EventLog, int]:
    async with running(Process(database)) as process:
        name = await make_cloud(process)
        return process.log, await process.scheduler.cloud_id(name)


async def test_a_worker_that_is_stopped_loses_its_locks(
    database: Database, database_url: str, holders: list[subprocess.Popen[str]]
):
    hold_and_stop(holders, database_url, "lock")
    began = time.monotonic()
    locks = Locks(database)
    while True:
        async with locks.held(DELIVERY_LOCK) as hold:
            if hold is not None:
                break
        assert time.monotonic() - began < PAUSES.lost_after_s + 10
        await asyncio.sleep(0.2)
    assert time.monotonic() - began > PAUSES.lost_after_s / 2


async def test_a_worker_that_works_keeps_its_locks(database: Database):
    async with Locks(database, PAUSES).held(DELIVERY_LOCK) as hold:
        assert hold is not None
        await asyncio.sleep(2 * PAUSES.lost_after_s)
        await hold.check()
        async with Locks(database).held(DELIVERY_LOCK) as other:
            assert other is None


async def test_a_database_that_closes_every_connection_is_an_answer(database_url: str):
    database = Database(database_url)
    try:
        await database.execute("SELECT 1")

        def closed(*_: object) -> None:
            raise DisconnectionError

        event.listen(database._engine.sync_engine, "checkout", closed)
        with pytest.raises(LogUnavailable):
            await database.execute("SELECT 1")
    finally:
        await database.close()


@pytest.fixture
def unstarted() -> Iterator[ExternalServer]:
    binaries = debian_binaries()
    with TemporaryDirectory(prefix="tenure-external-") as directory:
        server = ExternalServer(Path(directory), binaries)
        server.initialise()
        yield server
        server.stop()


async def test_a_database_that_starts_later_is_waited_for(unstarted: ExternalServer):
    upgrading = asyncio.create_task(asyncio.to_thread(at_last, partial(upgrade, unstarted.url)))
    await asyncio.sleep(2)
    assert not upgrading.done()
    unstarted.start()
    await asyncio.wait_for(upgrading, 60)
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        at_last(partial(upgrade, on_database(unstarted.url, "nowhere")))
    assert time.monotonic() - began < 15


def test_commands_on_a_database_that_starts_later_wait_for_it_too(unstarted: ExternalServer, tmp_path: Path):
    unstarted.start()
    upgrade(unstarted.url)
    unstarted.stop()
    past = tmp_path / "past.csv"
    past.write_text("start_s,lifetime_s,cores\n0,60,1\n")
    commands = (
        ("db", "upgrade"),
        ("db", "status"),
        ("token", "create", "late", "--role", "reader"),
        ("import", "late", str(past), "--nodes", "1x4", "--flavors", "small=1", "--wait", "1s"),
    )
    here = os.environ | {"TENURE_DATABASE_URL": unstarted.url}
    waiting = [
        subprocess.Popen([sys.executable, "-m", "app.cli", *command], env=here, stdout=PIPE, stderr=PIPE, text=True)
        for command in commands
    ]
    for one in waiting:
        assert any("the database cannot be reached yet" in line for line in one.stderr or ()), one.args
    unstarted.start()
    for command, one in zip(commands, waiting, strict=True):
        said = one.communicate(timeout=120)[1]
        assert one.returncode == 0, (command, said)
    with psycopg.connect(unstarted.url) as connection:
        assert connection.execute("SELECT name FROM cloud").fetchall() == [("late",)]


async def test_a_database_that_never_starts_is_given_up():
    with pytest.raises(LogUnavailable, match="Connection refused") as told:
        at_last(partial(upgrade, "postgresql://tenure:secret@127.0.0.1:1/nowhere"), starts_within_s=1)
    assert "secret" not in str(told.value)
