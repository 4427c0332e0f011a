"""Runs the programs of the private PostgreSQL with paths of any letters, and names its server in a URL."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.domain.inputs import InputError
from app.platform.database.server_files import last_words, log_size, told_error

_KNOWN_TO_SERVER = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"})
_SOCKET = '-h "" -k '
"""The words of pgserver before the folder of the socket."""
_STARTS_WITHIN_S = 60


class PostgresFailed(Exception):
    """The private PostgreSQL could not be made or started. The message is the reason, in one line."""


def run_program(command: str, args: Sequence[str], bin_path: Path, **more: Any) -> str:  # noqa: ANN401 - pgserver's own
    """Run one of PostgreSQL's programs, without the service's own environment variables.

    Raises PostgresFailed; where a server is stopped, the error of `subprocess` that pgserver knows.
    """
    environment = {name: value for name, value in os.environ.items() if name in _KNOWN_TO_SERVER or name[:3] == "LC_"}
    if args[-1] == "start":
        return _start_server(dict(zip(args[1:-1:2], args[2:-1:2], strict=True)), bin_path, environment, more)
    try:
        return _run((str(bin_path / command), *args), env=environment, **more)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        if args[-1] == "stop":
            raise
        raise PostgresFailed(told_error(str(error.output or "")) or str(error)) from error


def _start_server(options: dict[str, str], bin_path: Path, environment: dict[str, str], more: dict[str, Any]) -> str:
    """Start the server and wait until it is ready, which takes long if it has much to recover."""
    folder = options["-D"]
    words = ("-h", "", "-k", _listed(options["-o"].removeprefix(_SOCKET)), "-D", folder)
    # pg_ctl hands its own options to a shell between double quotes, which would read $, ` and " in a path.
    args = ("-w", "-t", str(_STARTS_WITHIN_S), "-o", shlex.join(words), "-l", "log", "start")
    before = log_size(Path(folder))
    more = more | {"cwd": folder, "env": environment | {"PGDATA": folder}, "timeout": 2 * _STARTS_WITHIN_S}
    try:
        return _run((str(bin_path / "pg_ctl"), *args), **more)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise PostgresFailed(last_words(Path(folder), before, str(error.output or "")) or str(error)) from error


def _run(words: Sequence[str], **more: Any) -> str:  # noqa: ANN401 - as above
    """Return what a program said. It may leave a server behind, which would keep a pipe open: a file takes it."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            subprocess.run(  # noqa: S603 - programs of PostgreSQL's, with our words
                words, check=True, stdin=subprocess.DEVNULL, stdout=said, stderr=said, **more
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said.seek(0)
            error.output = said.read()
            raise
        said.seek(0)
        return said.read()


def check_path(directory: Path) -> None:
    """Raise InputError for a folder that PostgreSQL's clients could not name: they split a list at commas."""
    if "," in str(directory) or not str(directory).isprintable():
        raise InputError(
            f"{str(directory)!r} has a comma or a control character, with which PostgreSQL cannot be reached there;"
            " name another data directory with --data-dir or TENURE_DATA_DIR"
        )


def server_url(socket_folder: Path, database: str) -> str:
    """Return the URL of a database of the server with a socket in this folder."""
    return f"postgresql://postgres:@/{database}?host={quote(str(socket_folder), safe='/')}"


def _listed(folder: str) -> str:
    """Return the folder as the only one of PostgreSQL's list, whose own signs are commas and double quotes."""
    doubled = folder.replace('"', '""')
    return f'"{doubled}"'
