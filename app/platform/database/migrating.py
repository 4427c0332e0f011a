"""Migrations of the schema, safe beside running processes.

A process that finds the schema up to date takes no lock. The others take turns: one migrates, and the rest wait
outside any transaction, because building an index waits for every open transaction. Statements wait for locks in
short tries, because others that want the same table queue behind them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg
import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

import migrations
from app.domain.errors import LogNewer, LogUnavailable
from app.domain.events.formats import LOG_FORMAT
from app.domain.inputs import NoDatabase
from app.platform.database.bounds import ImpatientConnection, Silence, shut
from app.platform.database.database import (
    driver_error,
    parse_url,
    session_options,
    shown_url,
    sqlstate,
    translated,
)
from app.platform.database.lockids import MIGRATION_LOCK

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TIMEOUT_S = 10.0
"""A connection, and every statement but a migration's own, has this long unless the caller says otherwise."""
_LOCK_TIMEOUT_MS = 2000
_STILL_MS = 5000
"""The time after which a migrating process that says nothing, between two statements, loses its session."""
_RETRY_S = 3.0
_TURN_S = 0.2
_PATIENCE_S = 600.0
_SAY_EVERY_S = 10.0
_UNANSWERED = 3
"""Looks in a row that find the server silent, after which a migration's own statement is given up."""
_STARTS_WITHIN_S = 30.0
_FINAL = ("28", "3D000", "42501")
"""Beginnings of the SQLSTATEs of a refused user, an unknown database, and a right that is missing."""
_FINAL_WORDS = re.compile("authentication failed|does not exist|no pg_hba.conf entry|not permitted|permission denied")
"""Words of the same refusals, for the driver does not pass on the SQLSTATE of a refused connection."""
_LOCK_NOT_AVAILABLE = "55P03"
_OLDEST = """
SELECT 'process ' || pid || ' (' || coalesce(nullif(application_name, ''), 'unnamed') ||
    ') on the server, in a transaction for ' || extract(epoch FROM now() - xact_start)::int || ' s'
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tenure' AND pid <> pg_backend_pid()
"""

_IS_THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
_SILENT = (Silence, psycopg.errors.ConnectionTimeout)


class DowngradeRefused(Exception):
    """The schema cannot be downgraded. The message says why."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The versions of a database. `revision`: None if it is empty. `runs_from`: the oldest revision that may use it.

    `log_format`: the newest format of events that may be written.
    """

    revision: str | None
    runs_from: str
    log_format: int


def at_last(step: Callable[[], T], *, starts_within_s: float = _STARTS_WITHIN_S) -> T:
    """Take a step as soon as its database can be reached. Raise LogUnavailable if it cannot within this time."""
    deadline = monotonic() + starts_within_s
    while True:
        try:
            return step()
        except LogUnavailable as error:
            if error.__cause__ is None:  # it answered, and said why not
                raise
            said = str(driver_error(error.__cause__)).strip().partition("\n")[0]
            if monotonic() > deadline or not _may_come(error):
                raise LogUnavailable(f"{error}: {said}") from error.__cause__
            logger.warning("the database cannot be reached yet: %s", said)
        sleep(1)


def _may_come(error: LogUnavailable) -> bool:
    """Return True unless the server has refused this caller for good: it may be starting, or have no place left."""
    state = sqlstate(error.__cause__)
    if state is not None:
        return not state.startswith(_FINAL)
    return _FINAL_WORDS.search(str(error.__cause__)) is None


def upgrade(url: str, *, finish: bool = False, patience_s: float = _PATIENCE_S, timeout_s: float = _TIMEOUT_S) -> None:
    """Bring the schema to the newest revision. `finish` also puts this program's log format in force.

    Raises LogNewer if the database is too new for this program, and LogUnavailable if its turn or a lock does not come.
    """
    with _connected(url, timeout_s) as connection:
        was_empty = _revision(connection) is None
        if not _is_newest(connection):
            import_module("alembic.command")  # half a second, and not while others wait for the turn
            with _turn(connection, patience_s):
                if not _is_newest(connection):
                    _migrate(connection, "upgrade", "head", patience_s)
        if finish or was_empty:
            connection.exec_driver_sql("UPDATE agreement SET log_format = %s", (LOG_FORMAT,))
            connection.commit()


def downgrade(url: str, *, patience_s: float = _PATIENCE_S, timeout_s: float = _TIMEOUT_S) -> Standing:
    """Take the schema one revision back and return its versions. Raise DowngradeRefused if that would lose data."""
    with _connected(url, timeout_s) as connection:
        standing = read_standing(connection)
        check_not_newer(standing)
        if standing.revision in (None, migrations.revisions()[0]):
            raise DowngradeRefused("there is no older schema")
        with _turn(connection, patience_s):
            _check_alone(connection)
            try:
                _migrate(connection, "downgrade", "-1", patience_s)
            except migrations.Irreversible as error:
                raise DowngradeRefused(str(error)) from None
        return read_standing(connection)


def require_newest(url: str, *, timeout_s: float = _TIMEOUT_S) -> None:
    """Check the schema without changing it. Raise NoDatabase if it is too old, LogNewer if it is too new."""
    with _connected(url, timeout_s) as connection:
        is_newest, found = _is_newest(connection), _revision(connection)
    if found is None:
        raise NoDatabase(f"{shown_url(url)} holds nothing of Tenure's: tenure run, or tenure db upgrade, sets it up")
    if not is_newest:
        raise NoDatabase(
            f"{shown_url(url)} is of an older version (schema {found}, this command has {migrations.newest()}): "
            "use the command of that version, or tenure db upgrade"
        )


def stand(url: str, *, timeout_s: float = _TIMEOUT_S) -> Standing:
    """Return the versions of the database."""
    with _connected(url, timeout_s) as connection:
        return read_standing(connection)


def read_standing(connection: Connection) -> Standing:
    """Return the versions of the database over this connection, leaving no transaction open."""
    revision, runs_from, log_format = _revision(connection), migrations.FIRST_AGREED, 1
    if connection.exec_driver_sql("SELECT to_regclass('agreement')").scalar() is not None:
        runs_from, log_format = connection.exec_driver_sql("SELECT runs_from, log_format FROM agreement").one()
    connection.commit()
    return Standing(revision, runs_from, log_format)


def check_not_newer(standing: Standing) -> None:
    """Raise LogNewer if this program may not run on such a database."""
    if standing.runs_from > migrations.newest():
        raise LogNewer(
            f"the database has schema {standing.revision}, made by a newer version of Tenure, and takes programs from "
            f"schema {standing.runs_from} on: this one knows {migrations.newest()}, so run the newer version"
        )
    if standing.log_format > LOG_FORMAT:
        raise LogNewer(
            f"the database has log format {standing.log_format}, put in force by a newer version of Tenure: this one "
            f"knows {LOG_FORMAT}, so run the newer version"
        )


def _is_newest(connection: Connection) -> bool:
    """Return True if there is nothing to migrate. Newer schemas that allow this program are fine, others LogNewer."""
    standing = read_standing(connection)
    check_not_newer(standing)
    if standing.revision is not None and standing.revision > migrations.newest():
        logger.warning("the schema is newer than this program, which may run on it: %s", standing)
        return True
    return standing.revision == migrations.newest()


@contextmanager
def _connected(url: str, timeout_s: float = _TIMEOUT_S) -> Iterator[Connection]:
    """Open a session that migrates. A statement whose answer does not come within `timeout_s` is a lost database.

    One that works, at a migration however long, keeps its locks and its turn. The server ends one whose process stands
    still, is dead or has lost its host, for others wait for both.
    """
    parsed = parse_url(url)
    options = session_options(
        parsed,
        lock_timeout=_LOCK_TIMEOUT_MS,
        idle_in_transaction_session_timeout=_STILL_MS,
        idle_session_timeout=_STILL_MS,
    )
    arguments = {"connect_timeout": max(2, int(timeout_s)), "options": options}
    engine = sqlalchemy.create_engine(parsed, connect_args=arguments, poolclass=NullPool)
    sqlalchemy.event.listen(engine, "do_connect", partial(_connect_bounded, timeout_s))
    try:
        with translated(), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _connect_bounded(
    timeout_s: float, _dialect: object, _record: object, _arguments: object, named: dict[str, Any]
) -> ImpatientConnection:
    connection = ImpatientConnection.connect(**named)
    connection.bound_s = timeout_s
    return connection


def _revision(connection: Connection) -> str | None:
    """Return the revision of the schema; None if the database is empty."""
    if connection.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar() is None:
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


@contextmanager
def _turn(connection: Connection, patience_s: float) -> Iterator[None]:
    """Hold the migration lock while the block lasts."""

    def take() -> bool:
        taken = connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s, %s)", MIGRATION_LOCK).scalar()
        connection.commit()
        return bool(taken)

    _wait(take, lambda: "waiting for another process that brings the schema forward", _TURN_S, patience_s)
    try:
        yield
    finally:
        if not (connection.invalidated or connection.closed):  # a lost connection has lost the lock
            connection.rollback()
            connection.exec_driver_sql("SELECT pg_advisory_unlock(%s, %s)", MIGRATION_LOCK)
            connection.commit()


def _migrate(connection: Connection, direction: str, target: str, patience_s: float) -> None:
    """Run migrations, each in its own transaction, and retry those that do not get their locks."""

    def step() -> bool:
        try:
            with _watched(connection):
                _run_alembic(connection, direction, target)
        except SQLAlchemyError as error:
            if connection.invalidated or not _is_lock_missing(error):
                raise
            connection.rollback()
            return False
        return True

    try:
        _wait(step, lambda: f"waiting for a lock on the database: {_oldest(connection)}", _RETRY_S, patience_s)
    except SQLAlchemyError as error:
        if connection.invalidated or isinstance(driver_error(error), _SILENT):
            raise LogUnavailable(
                "the database was lost while the schema was being changed, or this process stood still for over "
                f"{_STILL_MS / 1000:g} s and lost its turn; what was finished stays, and the rest can be done again"
            ) from error
        raise


def _is_lock_missing(error: SQLAlchemyError) -> bool:
    return isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def _wait(step: Callable[[], bool], words: Callable[[], str], pause_s: float, patience_s: float) -> None:
    """Try until the step succeeds, logging every few seconds. Raise LogUnavailable after `patience_s`."""
    begin, said_s = monotonic(), float("-inf")
    while not step():
        now = monotonic()
        if now - begin > patience_s:
            raise LogUnavailable(f"gave up after {patience_s:g} s of {words()}")
        if now - said_s >= _SAY_EVERY_S:
            logger.warning("%s; for %.0f s so far", words(), now - begin)
            said_s = now
        sleep(pause_s)


@contextmanager
def _watched(connection: Connection) -> Iterator[None]:
    """Let the statements of the block take as long as they work, and log every few seconds what they may wait for.

    Other connections ask for that. Where the server has no such session any more, or says nothing for several looks,
    the block's connection is shut, for its answer will not come.
    """
    driver, over = _driver(connection), Event()
    pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
    connection.commit()

    def watch() -> None:
        if not _follow(connection.engine, pid, over):
            shut(driver)

    watcher = Thread(target=watch, name="migration", daemon=True)
    bound_s, driver.bound_s = driver.bound_s, None
    watcher.start()
    try:
        yield
    finally:
        driver.bound_s = bound_s
        over.set()
        watcher.join()


def _follow(engine: sqlalchemy.Engine, pid: Any, over: Event) -> bool:  # noqa: ANN401 - the driver's
    """Log at times how long the session is at it, until `over`. Return False if it is lost."""
    begin, unanswered = monotonic(), 0
    while not over.wait(_SAY_EVERY_S):
        try:
            with engine.connect() as other:
                if not other.exec_driver_sql(_IS_THERE, (pid,)).scalar():
                    return over.is_set()
                oldest = _oldest(other)
        except SQLAlchemyError as error:
            unanswered = unanswered + 1 if isinstance(driver_error(error), _SILENT) else 0
            if unanswered == _UNANSWERED:
                return False
            continue
        unanswered = 0
        logger.warning("the schema is being changed for %.0f s; perhaps waiting for %s", monotonic() - begin, oldest)
    return True


def _driver(connection: Connection) -> ImpatientConnection:
    found = connection.connection.driver_connection
    assert isinstance(found, ImpatientConnection)
    return found


def _oldest(connection: Connection) -> Any:  # noqa: ANN401 - the driver's
    found = connection.exec_driver_sql(_OLDEST).scalar()
    connection.commit()
    return found or "nobody who is still there"


def _check_alone(connection: Connection) -> None:
    others = connection.exec_driver_sql(_OTHERS).scalar()
    connection.commit()
    if others:
        raise DowngradeRefused(f"stop all processes of Tenure first: {others} of their connections are open")


def _run_alembic(connection: Connection, direction: str, target: str) -> None:
    # Imported only if there is something to do, which saves half a second at each start.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", migrations.__path__[0].replace("%", "%%"))
    config.attributes["connection"] = connection
    getattr(command, direction)(config, target)
