"""The files of the private PostgreSQL: whether its data are whole, its settings, and its log, which is kept small."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from app.domain.inputs import NoDatabase

_SETTINGS = (
    """
# Set once by tenure. Durability settings are PostgreSQL's defaults: fsync and synchronous_commit are on.
unix_socket_permissions = 0700
max_connections = 200
""",
    """
# Set once by tenure. An error of a statement is told to who sent it: here it would fill the disk, with its statement.
log_min_messages = log
log_checkpoints = off
""",
)
"""Blocks of settings. The first line of each is looked for: whoever edits the others is left alone."""
_LOG = "log"
_LOG_MOST = 1 << 23
_LOG_KEPT = 1 << 20
_WORDS_MOST = 1 << 13
_TOLD = re.compile(r"(?:FATAL|PANIC|error):\s+(?!\s|the database system is )(.+)(?:\n.*DETAIL:\s+(.+))?")
"""An error that ends a program of PostgreSQL's. Those whom a starting server sends away do not end it."""


def version_of(directory: Path) -> int | None:
    """Return the version of PostgreSQL that made the data in this folder, None if nothing is there.

    Raises NoDatabase for data that are not whole.
    """
    try:
        version = int((directory / "PG_VERSION").read_text())
        is_whole = (directory / "global" / "pg_control").exists()
    except (FileNotFoundError, ValueError):
        version, is_whole = None, not directory.is_dir() or not any(directory.iterdir())
    if not is_whole:
        raise NoDatabase(
            f"the data in {directory} are not whole: a first start of an older version was killed there, or files were"
            " lost; nothing was changed. Put a backup back, or remove the folder if it never held any data"
        )
    return version


def settle(directory: Path) -> None:
    """Add our settings to those of a server that does not run, as a whole and durably, unless they are there."""
    settings = directory / "postgresql.conf"
    if settings.is_symlink():  # somebody's own, elsewhere
        return
    text = settings.read_text()
    missing = [block for block in _SETTINGS if block.strip().partition("\n")[0] not in text]
    if not missing:
        return
    number, name = tempfile.mkstemp(dir=directory, prefix="postgresql.conf.")
    try:
        with os.fdopen(number, "w") as new:
            new.write("".join((text, *missing)))
            new.flush()
            found = settings.stat()
            os.fchown(number, found.st_uid, found.st_gid)
            os.fchmod(number, found.st_mode & 0o777)
            os.fsync(number)
        os.replace(name, settings)  # noqa: PTH105 - the name is a text
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 - as above
    sync_folder(directory)


def sync_folder(folder: Path) -> None:
    """Let what was renamed in the folder outlive a crash of the machine."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def cut_log(directory: Path) -> None:
    """Keep the end of a log that has grown large; its server does not run. It takes no room of the disk."""
    if log_size(directory) <= _LOG_MOST:
        return
    with os.fdopen(os.open(directory / _LOG, os.O_RDWR | os.O_NOFOLLOW), "r+b") as log:
        log.seek(-_LOG_KEPT, os.SEEK_END)
        kept = log.read().partition(b"\n")[2]
        log.seek(0)
        log.write(kept)
        log.truncate()


def log_size(directory: Path) -> int:
    """Return the bytes of the server's log, 0 if there is none."""
    try:
        return (directory / _LOG).stat().st_size
    except FileNotFoundError:
        return 0


def last_words(directory: Path, after: int, said: str) -> str:
    """Return in a line why the server ended: by its log after so many bytes, else by what `pg_ctl` said."""
    logged = ""
    with suppress(OSError), (directory / _LOG).open("rb") as log:
        log.seek(max(after, log_size(directory) - _WORDS_MOST))
        logged = log.read(_WORDS_MOST).decode(errors="replace")
    if shutil.disk_usage(directory).free < _WORDS_MOST:
        return f"the disk of {directory} is full"
    return told_error(logged) or told_error(said) or _last_line(logged) or _last_line(said)


def told_error(said: str) -> str:
    """Return the last error that a program of PostgreSQL told, in a line; nothing if there is none.

    One of a full disk goes before those that followed from it.
    """
    found = [": ".join(filter(None, one)).strip() for one in _TOLD.findall(said)]
    full = [one for one in found if os.strerror(errno.ENOSPC) in one or os.strerror(errno.EDQUOT) in one]
    return (full or found or [""])[-1]


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
