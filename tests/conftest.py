"""PostgreSQL for the tests: always a real server, and a fresh database for each module."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from app.store.database import Database, upgrade
from app.store.embedded import embedded_url

_TEMPLATE = "tenure_template"
_numbers = count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[str]:
    """URL of a private server with an upgraded template database, for the whole session."""
    with tempfile.TemporaryDirectory(prefix="tenure-test-") as directory, embedded_url(Path(directory)) as url:
        run_sql(url, f"CREATE DATABASE {_TEMPLATE}")
        upgrade(on_database(url, _TEMPLATE))
        yield url


@pytest.fixture(scope="module")
def database_url(embedded_server: str) -> Iterator[str]:
    """URL of an empty, upgraded database of the module's own."""
    name = f"tenure_test_{next(_numbers)}"
    run_sql(embedded_server, f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
    yield on_database(embedded_server, name)
    run_sql(embedded_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The module's database; each test makes clouds of its own."""
    database = Database(database_url)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def external_server() -> Iterator[str]:
    """URL of a separately started server (Debian's binaries), reached over TCP with a password-less local user."""
    binaries = _debian_binaries()
    with tempfile.TemporaryDirectory(prefix="tenure-external-") as directory:
        server = ExternalServer(Path(directory), binaries)
        server.initialise()
        server.start()
        yield server.url
        server.stop()


class ExternalServer:
    """A PostgreSQL of the distribution's, run as a user who is not root."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.data = directory / "data"
        self.binaries = binaries
        self.port = _free_port()
        self.user = _other_user() if os.geteuid() == 0 else None
        self.url = f"postgresql://tenure@127.0.0.1:{self.port}/postgres"
        if self.user is not None:
            shutil.chown(directory, self.user)

    def initialise(self) -> None:
        self._run("initdb", "-U", "tenure", "--auth=trust", "--encoding=utf8", "--no-sync", "-D", str(self.data))

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.data}"
        log = str(self.data / "server.log")
        self._run("pg_ctl", "-w", "-D", str(self.data), "-o", options, "-l", log, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self.data), "stop")

    def _run(self, *command: str) -> None:
        arguments = [str(self.binaries / command[0]), *command[1:]]
        subprocess.run(
            arguments, check=True, user=self.user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def run_sql(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def on_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _debian_binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("no separately installed PostgreSQL: /usr/lib/postgresql/*/bin is missing")
    return found[-1].parent


def _other_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
