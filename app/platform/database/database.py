"""The one door to PostgreSQL: connections, time limits, errors.

Every failure of the database leaves here as one of two errors: `ConstraintBroken`, which says by name which rule of
the schema a change would have broken, and `LogUnavailable`, after which it may be unknown whether a change was kept.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import Row
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError, IntegrityError, InterfaceError, InternalError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction, create_async_engine
from sqlalchemy.pool import NullPool

from app.domain.errors import LogUnavailable
from app.platform.database.newer import NewerLogs

Parameters = Mapping[str, object]
AnyRow = Row[*tuple[Any, ...]]
Rows = Sequence[AnyRow]
Tuples = Sequence[tuple[Any, ...]]

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


_TIME_US = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_IDLE_IN_TRANSACTION_MS = 2000
_TAKEN_BACK = ("25P03", "55P03")
"""SQLSTATEs of a session that was idle in its transaction for too long, and of a lock that did not come in time."""


class ConstraintBroken(Exception):
    """The change would have broken the constraint of this name; nothing was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Session:
    """Statements on one connection, in one transaction; see `Database.transaction`."""

    def __init__(self, connection: AsyncConnection, timeout_s: float, newer: NewerLogs) -> None:
        self.newer = newer
        self._connection = connection
        self._timeout_s = timeout_s

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Rows:
        """Run one statement, with psycopg's %(name)s places; its rows, or none."""
        async with _guarded(self._timeout_s):
            return await _execute(self._connection, sql, parameters)

    async def execute_directly(self, sql: str, parameters: Parameters) -> Tuples:
        """As `Database.execute_directly`, within this session."""
        async with _guarded(self._timeout_s):
            return await _execute_directly(self._connection, sql, parameters)


class Database:
    """A process's connections to one database.

    `timeout_s` bounds connecting and each statement, so that a lost database is an answer and not a wait.
    Connections that broke are replaced when they are next wanted. Whoever holds a connection of the pool must not wait
    for another one: enough of them at once would wait for each other.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0, pool_size: int = 10) -> None:
        self.url = parse_url(url)
        self.timeout_s = timeout_s
        self.newer = NewerLogs()
        self._engine = _engine(self.url, timeout_s, pool_size=pool_size, max_overflow=0, pool_timeout=timeout_s)
        self._apart = _engine(self.url, timeout_s, poolclass=NullPool)
        sqlalchemy.event.listen(self._engine.sync_engine, "checkout", _check_connection)

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Rows:
        """Run one statement, which is a transaction by itself (one round trip); its rows, or none."""
        async with _guarded(self.timeout_s), self._engine.connect() as connection:
            return await _execute(connection, sql, parameters)

    async def execute_directly(self, sql: str, parameters: Parameters) -> Tuples:
        """As `execute`, but by a cursor of the driver, with values in binary: for the event log.

        Every decision waits for an append, and a fold reads a million events: SQLAlchemy's own cursor takes about a
        fifth longer for the one and up to twice as long for the other (benchmarks/log.py).
        """
        async with _guarded(self.timeout_s), self._engine.connect() as connection:
            return await _execute_directly(connection, sql, parameters)

    async def time_us(self) -> int:
        """Return the time by the database's own clock, in microseconds."""
        ((at_us,),) = await self.execute(_TIME_US)
        return int(at_us)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Several statements as one transaction: committed at the block's end, undone if it raises."""
        async with self._connection(self._engine) as connection:
            transaction = await self._begin(connection)
            try:
                yield Session(connection, self.timeout_s, self.newer)
            except BaseException:
                with suppress(LogUnavailable):
                    await self._finish(transaction.rollback())
                raise
            await self._finish(transaction.commit())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Session]:
        """Several statements on one connection, each a transaction by itself: for what belongs to a connection.

        It is opened for this, beside the pool: it may be held for long, and statements over the pool go on meanwhile.
        """
        async with self._connection(self._apart) as connection:
            yield Session(connection, self.timeout_s, self.newer)

    @asynccontextmanager
    async def _connection(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        async with _guarded(self.timeout_s):
            connection = await engine.connect()
        try:
            yield connection
        finally:
            with suppress(LogUnavailable):
                await self._finish(connection.close())

    async def _begin(self, connection: AsyncConnection) -> AsyncTransaction:
        async with _guarded(self.timeout_s):
            await connection.execution_options(isolation_level="READ COMMITTED")
            return await connection.begin()

    async def _finish(self, step: Awaitable[None]) -> None:
        async with _guarded(self.timeout_s):
            await step

    async def close(self) -> None:
        """Close the connections that are not in use."""
        await self._engine.dispose()


def parse_url(text: str) -> URL:
    """The database's URL with the one driver that this service uses. ValueError if it is not PostgreSQL's."""
    try:
        url = make_url(text)
    except sqlalchemy.exc.ArgumentError as error:
        raise ValueError("the database URL must look like postgresql://user:password@host:port/name") from error
    if url.drivername not in _DRIVERS:
        raise ValueError(f"the database URL must begin with postgresql://, not with {url.drivername}://")
    return url.set(drivername="postgresql+psycopg")


def shown_url(text: str) -> str:
    """The URL without anything that is nobody's business."""
    return make_url(text).set(query={}).render_as_string(hide_password=True)


async def _execute(connection: AsyncConnection, sql: str, parameters: Parameters | None) -> Rows:
    result = await connection.exec_driver_sql(sql, dict(parameters or {}))
    return result.all() if result.returns_rows else ()


async def _execute_directly(connection: AsyncConnection, sql: str, parameters: Parameters) -> Tuples:
    driver_connection = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver_connection, psycopg.AsyncConnection)
    async with driver_connection.cursor(binary=True) as cursor:
        await cursor.execute(sql, parameters)
        return await cursor.fetchall() if cursor.description else ()


def _check_connection(connection: DBAPIConnection, _record: object, _proxy: object) -> None:
    """Have the pool replace a connection that the server has closed.

    While nothing is asked, the server sends nothing but its good-bye. Looking costs a few microseconds, and asking it
    (`pool_pre_ping`) a round trip.
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
        "connect_timeout": max(2, int(timeout_s)),
        "tcp_user_timeout": limit_ms,
        "application_name": "tenure",
        "options": " ".join([str(url.query.get("options", "")), *_session_settings(limit_ms)]).strip(),
    }


def _session_settings(limit_ms: int) -> list[str]:
    """What the server applies to this process's sessions.

    It gives up a transaction whose client stands still, and notices a client whose host is gone: what either holds, the
    others wait for.
    """
    settings = {
        "statement_timeout": limit_ms,
        "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION_MS,
        "client_connection_check_interval": 1000,
        "tcp_keepalives_idle": 5,
        "tcp_keepalives_interval": 2,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "timezone": "UTC",
        "jit": "off",
    }
    return [f"-c {name}={value}" for name, value in settings.items()]


def is_taken_back(error: LogUnavailable) -> bool:
    """Tell whether the server undid the transaction because this process let it wait, or had to wait for a lock."""
    cause = error.__cause__
    if isinstance(cause, sqlalchemy.exc.DBAPIError):
        cause = cause.orig
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _TAKEN_BACK


@asynccontextmanager
async def _guarded(timeout_s: float) -> AsyncIterator[None]:
    with translated():
        async with asyncio.timeout(timeout_s):
            yield


@contextmanager
def translated() -> Iterator[None]:
    """Let failures of the database leave the block as this module's two errors."""
    try:
        yield
    except IntegrityError as error:
        raise ConstraintBroken(_constraint(error.orig)) from error
    except psycopg.IntegrityError as error:
        raise ConstraintBroken(_constraint(error)) from error
    except sqlalchemy.exc.InvalidRequestError as error:
        # So the pool says that a connection was closed, and the one that it made instead as well.
        raise LogUnavailable("the database closes every connection") from error
    except _UNAVAILABLE as error:
        raise LogUnavailable("the database could not be reached, or did not answer in time") from error


def _constraint(error: BaseException | None) -> str:
    return str(error.diag.constraint_name) if isinstance(error, psycopg.Error) else str(error)
