"""The only access to PostgreSQL: connections, time limits, errors.

Every failure of the database leaves this module as one of two errors. `ConstraintBroken` names the rule of the schema
that a change would have broken. After `LogUnavailable` it may be unknown whether a change was kept.
"""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import psycopg
import sqlalchemy
from psycopg.rows import namedtuple_row
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError, IntegrityError, InterfaceError, InternalError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction, create_async_engine
from sqlalchemy.pool import NullPool

from app.domain.errors import LogUnavailable
from app.platform.asked import is_read, of_group, whose
from app.platform.database.bounds import Bound, Bounds, PromptConnection, guard_by_current
from app.platform.database.newer import NewerLogs
from app.platform.database.places import places_in
from app.platform.database.shortage import Shortage
from app.platform.database.stalled import StalledSessions

Parameters = Mapping[str, object]
AnyRow = Any
"""A tuple with the names of its columns."""
Rows = Sequence[AnyRow]
Tuples = Sequence[tuple[Any, ...]]
_R = TypeVar("_R")

_DRIVERS = ("postgresql", "postgres", "postgresql+psycopg")
_UNAVAILABLE = (
    OperationalError,
    InterfaceError,
    InternalError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.InternalError,
    sqlalchemy.exc.TimeoutError,
    DisconnectionError,
    TimeoutError,
    OSError,
)
_NO_ANSWER = "the database could not be reached, or did not answer in time"
_TOLD: Mapping[str | None, str] = {
    "25P03": "this service let a transaction rest for too long, so the database ended it"
}
_MISSING = frozenset({"42P01", "42703", "3F000"})
"""SQLSTATEs of a missing table, column or schema."""
_NOT_OURS = _MISSING | {"42501"}
"""SQLSTATEs of what is missing, and of what this service's user may not use."""
_DISK_FULL = "53100"
_TIME_US = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_IDLE_IN_TRANSACTION_MS = 2000
"""The time after which the server ends the transaction of a stalled client."""
_OF_EVERY_SESSION = {
    "client_connection_check_interval": 1000,
    "tcp_keepalives_idle": 5,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "timezone": "UTC",
}
_LENT_KEPT = 8
"""So many connections are kept to be lent again. The server closes them after some seconds (`Locks`)."""
_TAKEN_BACK = ("25P03", "55P03")
"""SQLSTATEs of a session that was idle in its transaction for too long, and of a lock that was not granted in time."""


class ConstraintBroken(Exception):
    """The change would have broken the constraint of this name. Nothing was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Session:
    """A connection on which statements run; see `Database.transaction` and `Database.connection`."""

    def __init__(
        self, connection: AsyncConnection, newer: NewerLogs, bounded: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self.newer = newer
        self._connection = connection
        self._bounded = bounded

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Rows:
        """Run one statement with psycopg's %(name)s placeholders, and return its rows, if any."""
        with translated(), self._bounded():
            return await _execute(self._connection, sql, parameters)

    async def execute_directly(self, sql: str, parameters: Parameters) -> Tuples:
        """Run a statement like `Database.execute_directly`, within this session."""
        with translated(), self._bounded():
            return await _execute_directly(self._connection, sql, parameters)


class Database:
    """A process's connections to one database.

    `timeout_s` bounds each call, waiting for a connection included, and each transaction as a whole, so that a lost
    database causes an error instead of a hang. Broken connections are replaced when they are next needed. A task that
    holds a connection of the pool must not wait for another one, because enough such tasks would wait for each other.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0, pool_size: int = 10) -> None:
        self.url = parse_url(url)
        self.timeout_s = timeout_s
        self.newer = NewerLogs()
        self.shortage = Shortage()
        self._stalled = StalledSessions(self._execute_apart)
        self._bounds = Bounds(timeout_s, self._stalled.look)
        self._engine = _engine(self.url, timeout_s, pool_size=pool_size, max_overflow=0, pool_timeout=timeout_s)
        self._reads, self._changes = places_in(pool_size)
        self._apart = _engine(self.url, timeout_s, poolclass=NullPool)
        self._lent = _engine(self.url, timeout_s, pool_size=_LENT_KEPT, max_overflow=-1, pool_use_lifo=True)
        for engine in (self._engine, self._lent):
            sqlalchemy.event.listen(engine.sync_engine, "checkout", _check_connection)
        for engine in (self._engine, self._apart, self._lent):
            # Before anything is asked of a new connection, and whenever one is taken.
            sqlalchemy.event.listen(engine.sync_engine, "connect", _guard_connection, insert=True)
            sqlalchemy.event.listen(engine.sync_engine, "checkout", _guard_connection)

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Rows:
        """Run one statement in a transaction of its own (one round trip), and return its rows, if any."""
        async with self._call() as connection:
            return await _execute(connection, sql, parameters)

    async def execute_directly(self, sql: str, parameters: Parameters) -> Tuples:
        """Run a statement like `execute`, but with binary values and rows without names. For what reads many rows.

        A fold reads a million events; benchmarks/log.py compares both ways.
        """
        async with self._call() as connection:
            return await _execute_directly(connection, sql, parameters)

    async def time_us(self) -> int:
        """Return the time by the database's own clock, in microseconds."""
        ((at_us,),) = await self.execute(_TIME_US)
        return int(at_us)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run several statements as one transaction, committed at the block's end and rolled back if it raises."""
        with self._noting_shortage(), self._bounds.bound() as bound:
            async with self._connection(self._engine, bound) as connection:
                with translated():
                    transaction = await _begin(connection)
                try:
                    yield Session(connection, self.newer, nullcontext)
                except BaseException:
                    with suppress(LogUnavailable):
                        await _finish(transaction.rollback())
                    raise
                await _finish(transaction.commit())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Session]:
        """Run several statements on one connection, each in its own transaction, for what belongs to a connection.

        The connection is opened outside the pool, so it may be held for long without hindering other statements.
        """
        with translated(), self._bounds.bound() as bound:
            connection = await bound.connected(self._apart.connect())
        driver = _driver_connection(connection)
        try:
            yield Session(connection, self.newer, lambda: self._bounds.bound(driver))
        finally:
            with suppress(LogUnavailable):
                await _finish(connection.close())

    @asynccontextmanager
    async def lent_connection(self) -> AsyncIterator[Session]:
        """Like `connection`, but over one that another block had before, if one is there: a new one takes long.

        Settings of its session stay with it, and so does what the block leaves there. If the block raises, the
        connection is closed; it is not lent again.
        """
        with translated(), self._bounds.bound() as bound:
            connection = await bound.connected(self._lent.connect())
        driver = _driver_connection(connection)
        try:
            yield Session(connection, self.newer, lambda: self._bounds.bound(driver))
        except BaseException:
            with suppress(LogUnavailable):
                await _finish(connection.invalidate())
            raise
        finally:
            with suppress(LogUnavailable):
                await _finish(connection.close())

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[AsyncConnection]:
        with self._noting_shortage(), translated(), self._bounds.bound() as bound:
            async with self._connection(self._engine, bound) as connection:
                yield connection

    @contextmanager
    def _noting_shortage(self) -> Iterator[None]:
        try:
            yield
        except LogUnavailable as error:
            if sqlstate(error.__cause__) == _DISK_FULL:
                self.shortage.meet()
            raise

    @asynccontextmanager
    async def _connection(self, engine: AsyncEngine, bound: Bound) -> AsyncIterator[AsyncConnection]:
        async with self._share(bound):
            with translated():
                connection = await bound.connected(engine.connect())
            try:
                yield connection
            finally:
                with suppress(LogUnavailable):
                    await _finish(connection.close())

    @asynccontextmanager
    async def _share(self, bound: Bound) -> AsyncIterator[None]:
        """Hold one of the places of requests in the pool, if this is somebody's request, or a read."""
        caller = whose()
        if caller is None and not is_read():
            yield
            return
        places = self._reads if is_read() else self._changes
        with translated():
            await bound.connected(places.take(caller, of_group()))
        try:
            yield
        finally:
            places.leave(caller)

    async def _execute_apart(self, sql: str) -> Rows:
        async with self.connection() as session:
            return await session.execute(sql)

    async def close(self) -> None:
        """Close the connections that are not in use."""
        await self._stalled.close()
        await self._engine.dispose()
        await self._lent.dispose()


def parse_url(text: str) -> URL:
    """Return the database's URL with this service's driver. Raise ValueError if it is not a PostgreSQL URL."""
    try:
        url = make_url(text)
    except sqlalchemy.exc.ArgumentError as error:
        raise ValueError("the database URL must look like postgresql://user:password@host:port/name") from error
    if url.drivername not in _DRIVERS:
        raise ValueError(f"the database URL must begin with postgresql://, not with {url.drivername}://")
    return url.set(drivername="postgresql+psycopg")


def shown_url(text: str) -> str:
    """Return the URL without its secrets."""
    return make_url(text).set(query={}).render_as_string(hide_password=True)


async def _execute(connection: AsyncConnection, sql: str, parameters: Parameters | None) -> Rows:
    return await _run(_driver_connection(connection).cursor(row_factory=namedtuple_row), sql, parameters or {})


async def _execute_directly(connection: AsyncConnection, sql: str, parameters: Parameters) -> Tuples:
    return await _run(_driver_connection(connection).cursor(binary=True), sql, parameters)


async def _run(opened: psycopg.AsyncCursor[_R], sql: str, parameters: Parameters) -> Sequence[_R]:
    async with opened as cursor:
        try:
            await cursor.execute(sql, parameters)
        except psycopg.Error as error:
            error.add_note(f"[SQL: {sql}]")
            raise
        return () if cursor.description is None else await cursor.fetchall()


async def _begin(connection: AsyncConnection) -> AsyncTransaction:
    await connection.execution_options(isolation_level="READ COMMITTED")
    return await connection.begin()


async def _finish(step: Awaitable[None]) -> None:
    with translated():
        await step


def _driver_connection(connection: AsyncConnection) -> psycopg.AsyncConnection:
    assert connection.sync_connection is not None
    found = connection.sync_connection.connection.driver_connection
    assert isinstance(found, psycopg.AsyncConnection)
    return found


def _guard_connection(connection: DBAPIConnection, *_: object) -> None:
    guard_by_current(connection.driver_connection)


def _check_connection(connection: DBAPIConnection, _record: object, _proxy: object) -> None:
    """Have the pool replace a connection that the server has closed.

    An idle connection is readable only after the server has closed it. This check costs a few microseconds; a query
    (`pool_pre_ping`) would cost a round trip.
    """
    driver_connection = connection.driver_connection
    if driver_connection.closed or _is_readable(driver_connection.fileno()):
        raise DisconnectionError


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _engine(url: URL, timeout_s: float, **pool: object) -> AsyncEngine:
    return create_async_engine(
        url,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        connect_args=_connect_arguments(url, timeout_s),
        **pool,
    )


def _connect_arguments(url: URL, timeout_s: float) -> dict[str, object]:
    limit_ms = int(timeout_s * 1000)
    return {
        "async_creator_fn": PromptConnection.connect,
        "connect_timeout": max(2, int(timeout_s)),
        "tcp_user_timeout": limit_ms,
        "application_name": "tenure",
        "options": session_options(
            url, statement_timeout=limit_ms, idle_in_transaction_session_timeout=_IDLE_IN_TRANSACTION_MS, jit="off"
        ),
    }


def session_options(url: URL, **settings: object) -> str:
    """Return the options of the URL, and the settings that the server applies to a session of this process.

    By those of every session the server detects a client whose host is gone, because others wait for its locks.
    """
    options = (f"-c {name}={value}" for name, value in (settings | _OF_EVERY_SESSION).items())
    return " ".join([str(url.query.get("options", "")), *options]).strip()


def is_taken_back(error: LogUnavailable) -> bool:
    """Return True if the server rolled back because this process was too slow or a lock was not granted."""
    return sqlstate(error.__cause__) in _TAKEN_BACK


def is_missing(error: LogUnavailable) -> bool:
    """Return True if the database was reached, but lacks a table or a column."""
    return sqlstate(error.__cause__) in _MISSING


@contextmanager
def translated() -> Iterator[None]:
    """Translate failures of the database within the block into this module's two errors."""
    try:
        yield
    except IntegrityError as error:
        raise ConstraintBroken(_constraint(error.orig)) from error
    except psycopg.IntegrityError as error:
        raise ConstraintBroken(_constraint(error)) from error
    except sqlalchemy.exc.InvalidRequestError as error:
        # The pool raises this if a connection was closed and so was the one made to replace it.
        raise LogUnavailable("the database closes every connection") from error
    except (sqlalchemy.exc.ProgrammingError, psycopg.ProgrammingError) as error:
        if sqlstate(error) not in _NOT_OURS:
            raise
        said = str(driver_error(error)).partition("\n")[0]
        raise LogUnavailable(f"the database does not hold this service's data, or not yet: {said}") from error
    except _UNAVAILABLE as error:
        raise LogUnavailable(_TOLD.get(sqlstate(error), _NO_ANSWER)) from error


def driver_error(error: BaseException | None) -> BaseException | None:
    """Return the driver's own error, out of the one that wraps it."""
    return error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error


def sqlstate(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of an error of the server; None if it named none, as where no connection came about."""
    cause = driver_error(error)
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None


def _constraint(error: BaseException | None) -> str:
    return str(error.diag.constraint_name) if isinstance(error, psycopg.Error) else str(error)
