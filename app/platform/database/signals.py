"""Signals between processes (LISTEN/NOTIFY), sent with the change that they announce.

Processes that are not listening miss them. So a signal is only a hint to look, and a listener that may have missed some
gets `Resync`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from uuid import uuid4

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import URL

from app.domain.errors import LogUnavailable
from app.platform.database.bounds import PromptConnection, abandoned_connections_closed
from app.platform.database.database import Database, Session

logger = logging.getLogger(__name__)

TABLES = "tenure"
LOGS = "tenure_log"
"""The two channels: changes of tables and runs, and growth of logs, which only feeds listen to."""
_LISTENER = "tenure-listen"
"""The name by which the database knows connections that listen."""
_LISTENERS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = %(name)s) AS found
"""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_KEEPALIVE_S = 10
_BEAT_S = 3.0
"""The time within which a listener hears the signal that it sends itself, and the pause between two of them."""


class TablePublished(msgspec.Struct, frozen=True, tag="table_published"):
    """A cloud has a new quantile table."""

    cloud_id: int
    epoch: int


class RunRequested(msgspec.Struct, frozen=True, tag="run_requested"):
    """A caller asked for a recomputation."""

    cloud_id: int
    run_id: int


class LogGrew(msgspec.Struct, frozen=True, tag="log_grew"):
    """A cloud's log has grown, at least to this seq."""

    cloud_id: int
    seq: int


class TurnsWanted(msgspec.Struct, frozen=True, tag="turns_wanted"):
    """A writer of a cloud's log was too late again and again: the others let it have its turn for a while."""

    cloud_id: int


class Resync(msgspec.Struct, frozen=True):
    """Listening has started or restarted; signals may have been missed."""


Sent = TablePublished | RunRequested | LogGrew | TurnsWanted
Signal = Sent | Resync
_DECODER: msgspec.json.Decoder[Sent] = msgspec.json.Decoder(Sent)
_NOTIFY_ALL = "SELECT pg_notify(%(channel)s, payload) FROM unnest(%(payloads)s::text[]) AS payload"


async def anyone_listens(database: Database) -> bool:
    """Return True if a service or a worker is connected to the database."""
    (row,) = await database.execute(_LISTENERS, {"name": _LISTENER})
    return bool(row.found)


async def announce(session: Session, notice: TablePublished | RunRequested) -> None:
    """Send the signal when the session's transaction commits."""
    payload = msgspec.json.encode(notice).decode()
    await session.execute("SELECT pg_notify(%(channel)s, %(payload)s)", {"channel": TABLES, "payload": payload})


async def announce_growth(database: Database, seqs: Mapping[int, int]) -> None:
    """Tell every process how far these clouds' logs reach now, in a separate transaction without a flush.

    It is not part of the append's transaction: PostgreSQL commits notifying transactions one at a time, so the appends
    of different clouds would wait for each other's disk.
    """
    payloads = [msgspec.json.encode(LogGrew(cloud_id, seq)).decode() for cloud_id, seq in seqs.items()]
    await database.execute(_NOTIFY_ALL, {"channel": LOGS, "payloads": payloads})


async def ask_for_turns(database: Database, cloud_id: int) -> None:
    """Ask the other writers of a cloud's log to take turns for a while."""
    payload = msgspec.json.encode(TurnsWanted(cloud_id)).decode()
    await database.execute(_NOTIFY_ALL, {"channel": LOGS, "payloads": [payload]})


async def listen(database: Database, channel: str = TABLES) -> AsyncGenerator[Signal]:
    """Yield all signals of a channel from now on, over a connection of its own that is replaced whenever it is deaf.

    It is deaf if it is lost, and if it does not hear a signal that this process sends to it alone: something between
    may keep up a connection that leads nowhere.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            own = f"tenure_own_{uuid4().hex}"
            async with await _connect(database, channel, own) as connection:
                pause_s = _FIRST_PAUSE_S
                yield Resync()
                async with aclosing(_payloads(database, connection, own)) as payloads:
                    async for payload in payloads:
                        if (notice := _decoded(payload)) is not None:
                            yield notice
        except (psycopg.Error, OSError) as error:
            logger.warning("listening to the database was interrupted", extra={"error": str(error)})
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _payloads(database: Database, connection: psycopg.AsyncConnection, own: str) -> AsyncGenerator[str]:
    """Yield what is heard, without the signals of the own channel. Raise TimeoutError if not even these are heard."""
    while True:
        sending = asyncio.create_task(_was_sent(database, own))
        is_deaf = True
        try:
            async for notification in connection.notifies(timeout=_BEAT_S):
                is_deaf = False
                if notification.channel != own:
                    yield notification.payload
            if is_deaf and sending.done() and sending.result():
                raise TimeoutError(f"a signal was not heard within {_BEAT_S:g} s")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _was_sent(database: Database, channel: str) -> bool:
    try:
        await database.execute("SELECT pg_notify(%(channel)s, '')", {"channel": channel})
    except LogUnavailable:
        return False
    return True


async def _connect(database: Database, channel: str, own: str) -> psycopg.AsyncConnection:
    with abandoned_connections_closed():
        connection = await PromptConnection.connect(
            _libpq_url(database.url),
            autocommit=True,
            connect_timeout=max(2, int(database.timeout_s)),
            application_name=_LISTENER,
            # Without keepalives an idle connection whose peer is gone would never be noticed.
            keepalives_idle=_KEEPALIVE_S,
            keepalives_interval=_KEEPALIVE_S,
            keepalives_count=3,
        )
    try:
        async with asyncio.timeout(database.timeout_s):
            for heard in (channel, own):
                await connection.execute(f"LISTEN {heard}")
    except BaseException:
        await connection.close()
        raise
    return connection


def _libpq_url(url: URL) -> str:
    asked = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    # A URL as SQLAlchemy writes it has plus signs for spaces, which the driver takes for plus signs.
    return make_conninfo(**(url.translate_connect_args(username="user", database="dbname") | asked))


def _decoded(payload: str) -> Signal | None:
    try:
        notice: Signal = _DECODER.decode(payload)
    except msgspec.DecodeError:
        logger.debug("a notice of an unknown kind was left unread", extra={"payload": payload})
        return None
    return notice
