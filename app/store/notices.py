"""Notices between processes (LISTEN/NOTIFY): sent with the change that they tell of, lost by who is not listening.

So a notice is a hint to look, never the news itself; and whenever a listener may have missed some, it gets `Resync`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec
import psycopg
from sqlalchemy.engine import URL

from app.store.database import Database, Session

logger = logging.getLogger(__name__)

_CHANNEL = "tenure"
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_KEEPALIVE_S = 10


class TablePublished(msgspec.Struct, frozen=True, tag="table_published"):
    """A cloud has a new quantile table."""

    cloud_id: int
    epoch: int


class RunRequested(msgspec.Struct, frozen=True, tag="run_requested"):
    """Someone asked for a recomputation."""

    cloud_id: int
    run_id: int


class Resync(msgspec.Struct, frozen=True):
    """Listening has begun, or begun again: notices may have been missed."""


Notice = TablePublished | RunRequested | Resync
_DECODER: msgspec.json.Decoder[TablePublished | RunRequested] = msgspec.json.Decoder(TablePublished | RunRequested)


async def announce(session: Session, notice: TablePublished | RunRequested) -> None:
    """Send the notice when the session's transaction commits."""
    payload = msgspec.json.encode(notice).decode()
    await session.execute("SELECT pg_notify(%(channel)s, %(payload)s)", {"channel": _CHANNEL, "payload": payload})


async def listen(database: Database) -> AsyncIterator[Notice]:
    """All notices from now on, over a connection of its own that is made anew whenever it is lost."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            async with await _connect(database) as connection:
                pause_s = _FIRST_PAUSE_S
                yield Resync()
                async for notification in connection.notifies():
                    notice = _decoded(notification.payload)
                    if notice is not None:
                        yield notice
        except (psycopg.Error, OSError) as error:
            logger.warning("listening to the database was interrupted", extra={"error": str(error)})
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _connect(database: Database) -> psycopg.AsyncConnection:
    connection = await psycopg.AsyncConnection.connect(
        _libpq_url(database.url),
        autocommit=True,
        connect_timeout=max(2, int(database.timeout_s)),
        application_name="tenure-listen",
        # An idle connection whose peer is gone would otherwise never be missed.
        keepalives_idle=_KEEPALIVE_S,
        keepalives_interval=_KEEPALIVE_S,
        keepalives_count=3,
    )
    await connection.execute(f"LISTEN {_CHANNEL}")
    return connection


def _libpq_url(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _decoded(payload: str) -> Notice | None:
    try:
        notice: Notice = _DECODER.decode(payload)
    except msgspec.DecodeError:
        logger.debug("a notice of an unknown kind was left unread", extra={"payload": payload})
        return None
    return notice
