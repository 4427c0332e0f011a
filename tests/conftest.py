"""PostgreSQL for the tests: always a real server, and a fresh database for each module."""

from __future__ import annotations

import gc
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
from servers import ExternalServer, debian_binaries, on_database, run_sql
from survivors import kill, mark, survivors

from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.platform.database.migrating import upgrade

if find_spec("tenure_client") is None:
    command = ".venv/bin/python -m pip install --no-deps --no-build-isolation --editable clients/tenure-client"
    pytest.exit(f"tenure-client is not installed here: make clean and make, or run {command}", 4)

_TEMPLATE = "tenure_template"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's job in the background ignores Ctrl-C, and so would every process that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
_numbers = count(1)
gc.disable()  # until all is loaded: collections find nothing meanwhile


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that wait for processes among those that compute, so that no core idles; the largest first."""
    files = sorted({item.path for item in items})
    waiting = sorted((file for file in files if file.parent.name == "e2e"), key=lambda file: -file.stat().st_size)
    places = {file: place / len(waiting) for place, file in enumerate(waiting)}
    computing = [file for file in files if file not in places]
    places |= {file: (place + 0.5) / len(computing) for place, file in enumerate(computing)}
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """The collector need not look again and again through libraries and thousands of tests, which stay."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    """The first fixture to be set up, so the last to be torn down."""
    marked = mark()
    yield
    # A tracker of multiprocessing ends with the process of the tests.
    assert [one for one in kill(survivors(marked)) if "multiprocessing.resource_tracker" not in one] == []


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
    await check_agreement(database)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def external_server() -> Iterator[str]:
    """URL of a separately started server (Debian's binaries), reached over TCP with a password-less local user."""
    binaries = debian_binaries()
    with tempfile.TemporaryDirectory(prefix="tenure-external-") as directory:
        server = ExternalServer(Path(directory), binaries)
        server.initialise()
        server.start()
        yield server.url
        server.stop()
