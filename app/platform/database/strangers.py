"""Data directories of another user. PostgreSQL's library would take them away from their owner, even for a read."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import psutil
import psycopg

from app.domain.inputs import NoDatabase
from app.platform.database.programs import server_url

_CONNECT_S = 5
_SOCKET_LINE = 4
"""The line of postmaster.pid that names the folder of the server's socket."""


def strangers_url(directory: Path, server_user: str, database: str) -> str | None:
    """Return the URL of the running server of another user's directory; None for a directory of one's own, or none.

    `server_user` runs the server if the caller is root. Changes nothing. Raises NoDatabase if the directory is another
    user's and no server of it can be reached.
    """
    try:
        owner = directory.stat().st_uid
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise NoDatabase(
            f"{directory} is closed to the user {_name(os.geteuid())}: {_way_out(None, server_user)}"
        ) from error
    if owner in _own(server_user):
        return None
    url = _reached(directory, database)
    if url is None:
        raise NoDatabase(
            f"{directory} belongs to the user {_name(owner)}, and no server of it can be reached as"
            f" {_name(os.geteuid())}; nothing was changed. {_way_out(owner, server_user)}"
        )
    return url


def serves(pid: str, directory: Path) -> bool:
    """Return True if this process is the server of the directory."""
    try:
        return pid.isdecimal() and str(directory) in psutil.Process(int(pid)).cmdline()
    except psutil.Error:
        return False


def _own(server_user: str) -> set[int]:
    """Return the owners of directories in which this process may run a server."""
    if os.geteuid() != 0:
        return {os.geteuid()}
    try:
        return {0, pwd.getpwnam(server_user).pw_uid}
    except KeyError:
        return {0}


def _reached(directory: Path, database: str) -> str | None:
    """Return the URL of the directory's server if it accepts this user."""
    try:
        lines = (directory / "postmaster.pid").read_text().splitlines()
        if len(lines) <= _SOCKET_LINE or not serves(lines[0].strip(), directory):
            return None
        url = server_url(Path(lines[_SOCKET_LINE]), database)
        psycopg.connect(url, connect_timeout=_CONNECT_S).close()
    except (OSError, psycopg.OperationalError):
        return None
    return url


def _way_out(owner: int | None, server_user: str) -> str:
    if owner is None:
        return "run tenure as its owner, or name another with --data-dir or TENURE_DATA_DIR"
    name = "root" if _name(owner) == server_user else _name(owner)
    return f"Run it as that user: sudo -u {name} tenure ..."


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
