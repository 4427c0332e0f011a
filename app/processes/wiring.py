"""The database that a process or a command works on, and the tokens alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from app.domain.errors import LogNewer, LogUnavailable
from app.domain.events.formats import LOG_FORMAT
from app.identity.service import TokenKeeper
from app.identity.store import Tokens
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.platform.database.locks import Locks
from app.platform.database.migrating import (
    DowngradeRefused,
    Standing,
    at_last,
    downgrade,
    require_newest,
    stand,
    upgrade,
)
from app.platform.settings import Settings
from app.platform.telemetry.metrics import LEFT_ALONE
from app.scheduling.store.clouds import Clouds

__all__ = ["LOG_FORMAT", "DowngradeRefused"]
"""Commands reach these parts of the database layer through this module."""


@contextmanager
def database_url(
    settings: Settings, *, create: bool = True, rest: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Yield the URL of the configured database or of the service's own, which is started if it does not run.

    There is a `rest` between two tries to start it.
    The last process to leave stops the service's own. Without `create`, raises NoDatabase if it does not exist yet.
    """
    if settings.database_url is not None:
        yield settings.database_url
    else:
        with embedded_url(settings.data_dir, create=create, rest=rest) as url:
            yield url


def upgrade_schema(settings: Settings, *, finish: bool = False) -> None:
    """Upgrade the database to the newest schema; `finish` also puts the newest log format in force."""
    with database_url(settings) as url:
        at_last(partial(upgrade, url, finish=finish, timeout_s=settings.database_timeout_s))


def downgrade_schema(settings: Settings) -> Standing:
    """Take the database's schema one revision back; return its standing. Raises DowngradeRefused."""
    with database_url(settings, create=False) as url:
        return at_last(partial(downgrade, url, timeout_s=settings.database_timeout_s))


def database_standing(settings: Settings) -> Standing:
    """Return the database's standing: its schema, the programs it accepts, its log format."""
    with database_url(settings, create=False) as url:
        return at_last(partial(stand, url, timeout_s=settings.database_timeout_s))


@asynccontextmanager
async def open_database(settings: Settings, *, create: bool = True) -> AsyncIterator[Database]:
    """Open the database at its newest schema. Without `create`, raises NoDatabase if it has another."""
    with database_url(settings, create=create) as url:
        prepare = partial(upgrade if create else require_newest, url, timeout_s=settings.database_timeout_s)
        await asyncio.to_thread(at_last, prepare)
        database = Database(url, timeout_s=settings.database_timeout_s, pool_size=settings.database_pool_size)
        LEFT_ALONE.labels("clouds").set_function(lambda: len(database.newer.clouds()))
        LEFT_ALONE.labels("database").set_function(database.newer.leaves_all)
        try:
            with suppress(LogNewer, LogUnavailable):  # until it is known, nothing newer is written than all can read
                await check_agreement(database)
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_tokens(settings: Settings) -> AsyncIterator[TokenKeeper]:
    """Open the tokens alone, for commands that work on the database before anyone has a token."""
    async with open_database(settings, create=False) as database:
        yield TokenKeeper(Tokens(database), Clouds(database), Locks(database))
