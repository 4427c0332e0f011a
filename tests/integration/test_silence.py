"""A database that falls silent at a start, under a command, or in a migration: an error in time, and one sentence."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from faults.proxy import Link
from servers import ExternalServer, debian_binaries, on_database, run_sql
from sqlalchemy.engine import make_url

from app.domain.errors import LogUnavailable
from app.platform.database import migrating
from app.platform.database.migrating import at_last, downgrade, require_newest, stand, upgrade

pytestmark = pytest.mark.anyio
TIMEOUT_S = 2.0
ASIDE_S = 4.0
"""Room for a busy machine."""
ALL_TRIES_S = 30 + 3 * TIMEOUT_S
WAYS = [stand, upgrade, downgrade, require_newest]
COMMANDS = [("db", "status"), ("db", "upgrade"), ("token", "list"), ("serve",), ("worker",)]
INSERT = "INSERT INTO event (cloud_id, seq, kind, version, data) VALUES (9, 1, 'x', 1, '{\"at_us\": 1}')"
_numbers = count(1)


@dataclass
class Far:
    """A database, near and behind a proxy."""

    near: str
    url: str
    link: Link


@pytest.fixture
async def far(external_server: str) -> AsyncIterator[Far]:
    name = f"tenure_silence_{next(_numbers)}"
    run_sql(external_server, f"CREATE DATABASE {name}")
    near = make_url(on_database(external_server, name))
    assert near.port is not None
    link = Link("far", near.port)
    through = near.set(host="127.0.0.1", port=await link.listen())
    yield Far(*(one.render_as_string(hide_password=False) for one in (near, through)), link)
    link.obey({"rule": "cut"})
    await asyncio.to_thread(run_sql, external_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_that_falls_silent_is_an_error_in_time(far: Far, way: Callable[..., object]):
    await asyncio.to_thread(upgrade, far.near)
    for answers in range(1, 9):
        far.link.obey({"rule": "fall_silent", "count": answers})
        began = time.monotonic()
        with pytest.raises(LogUnavailable):
            await asyncio.to_thread(way, far.url, timeout_s=TIMEOUT_S)
        assert time.monotonic() - began < TIMEOUT_S + ASIDE_S, answers
    far.link.obey({"rule": "pass"})
    await asyncio.to_thread(way, far.url, timeout_s=TIMEOUT_S)


@pytest.mark.long
async def test_commands_and_starts_say_so_in_a_sentence(far: Far):
    await asyncio.to_thread(upgrade, far.near)
    far.link.obey({"rule": "fall_silent", "count": 4})
    own = {"TENURE_DATABASE_URL": far.url, "TENURE_DATABASE_TIMEOUT_S": str(TIMEOUT_S), "TENURE_PORT": "0"}

    def run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, "-m", "app.cli", *command]
        return subprocess.run(arguments, env=os.environ | own, capture_output=True, text=True, timeout=180, check=False)

    for done in await asyncio.gather(*(asyncio.to_thread(run, command) for command in COMMANDS)):
        assert done.returncode == 3, (done.args, done.stdout, done.stderr)
        assert done.stderr.splitlines()[-1] == (
            "tenure: the database could not be reached, or did not answer in time: it said nothing for 2 s"
        ), done.args
        assert "the database cannot be reached yet" in done.stderr, "it was tried again"


async def test_a_start_goes_on_when_the_database_speaks_again(far: Far):
    await asyncio.to_thread(upgrade, far.near)
    far.link.obey({"rule": "fall_silent", "count": 4})
    starting = asyncio.create_task(asyncio.to_thread(at_last, partial(stand, far.url, timeout_s=TIMEOUT_S)))
    await asyncio.sleep(TIMEOUT_S + 1)
    assert not starting.done()
    far.link.obey({"rule": "pass"})
    await asyncio.wait_for(starting, 20)


@dataclass
class Migration:
    """A migration through a proxy, at the build of an index that waits for a writer."""

    far: Far
    writer: psycopg.Connection
    working: asyncio.Task[None]

    async def ends_s(self) -> float:
        """Wait until it fails; return how long it takes, in seconds."""
        began = time.monotonic()
        with pytest.raises(LogUnavailable, match="the database was lost while the schema was being changed"):
            await asyncio.wait_for(self.working, 60)
        return time.monotonic() - began


@pytest.fixture
async def building(
    far: Far, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Migration]:
    monkeypatch.setattr(migrating, "_SAY_EVERY_S", 0.5)

    def prepare() -> psycopg.Connection:
        with migrating._connected(far.near) as connection:
            migrating._migrate(connection, "upgrade", "0006", 60)
        writer = psycopg.connect(far.near)
        writer.execute(INSERT)
        return writer

    writer = await asyncio.to_thread(prepare)
    caplog.clear()  # the first revisions may have taken long, too
    with caplog.at_level(logging.WARNING):
        working = asyncio.create_task(asyncio.to_thread(upgrade, far.url, timeout_s=TIMEOUT_S))
        while not any("perhaps waiting for process" in line for line in caplog.messages):
            assert not working.done(), working.result()
            await asyncio.sleep(0.1)
        yield Migration(far, writer, working)
    await asyncio.to_thread(writer.close)


async def test_a_migrations_own_statement_takes_as_long_as_it_works(building: Migration):
    await asyncio.sleep(3 * TIMEOUT_S)
    assert not building.working.done()
    await asyncio.to_thread(building.writer.commit)
    await asyncio.wait_for(building.working, 60)


async def test_a_migration_whose_database_falls_silent_ends(building: Migration):
    building.far.link.obey({"rule": "vanish"})
    assert await building.ends_s() < 3 * (TIMEOUT_S + 0.5) + ASIDE_S


async def test_a_migration_whose_answer_is_lost_ends(building: Migration):
    """Other connections work. The server ends the session, since it hears nothing more."""
    building.far.link.obey({"rule": "mute"})
    await asyncio.to_thread(building.writer.commit)
    assert await building.ends_s() < 5 + 1 + ASIDE_S


@pytest.fixture
def full() -> Iterator[ExternalServer]:
    """A server with few places."""
    with TemporaryDirectory(prefix="tenure-full-") as directory:
        server = ExternalServer(Path(directory), debian_binaries())
        server.initialise()
        with (server.data / "postgresql.conf").open("a") as settings:
            settings.write("max_connections = 8\nsuperuser_reserved_connections = 2\n")
        server.start()
        yield server
        server.stop()


@pytest.mark.parametrize("user", ["tenure", "guest"])
def test_a_start_waits_for_a_place_on_a_server_that_is_full(
    full: ExternalServer, user: str, caplog: pytest.LogCaptureFixture
):
    """The last places are reserved for the superuser, so another user is told something else."""
    upgrade(full.url)
    run_sql(full.url, "CREATE ROLE guest LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
    url = full.url.replace("//tenure@", f"//{user}@")
    taken = [psycopg.connect(full.url) for _ in range(8 if user == "tenure" else 6)]
    said = "sorry, too many clients already" if user == "tenure" else "connection slots are reserved"
    freeing = threading.Timer(4, lambda: [one.close() for one in taken])
    freeing.start()
    with caplog.at_level(logging.WARNING):
        at_last(partial(stand, url))
    freeing.join()
    assert any(said in line for line in caplog.messages), caplog.messages


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("CREATE DATABASE closed; REVOKE CONNECT ON DATABASE closed FROM public", "permission denied"),
        ("ALTER ROLE guest NOLOGIN", "not permitted"),
        ("DROP ROLE guest", "does not exist"),
    ],
)
def test_a_refusal_for_good_is_told_at_once(full: ExternalServer, what: str, said: str):
    run_sql(full.url, "CREATE ROLE guest LOGIN")
    for statement in what.split("; "):
        run_sql(full.url, statement)
    url = on_database(full.url.replace("//tenure@", "//guest@"), "closed" if "closed" in what else "postgres")
    began = time.monotonic()
    with pytest.raises(LogUnavailable, match=said):
        at_last(partial(stand, url))
    assert time.monotonic() - began < 15
