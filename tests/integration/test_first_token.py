"""The admin token that a running process has shown stays, also when its connections are lost."""

from __future__ import annotations

import asyncio

import pytest
from servers import run_sql

from app.identity.service import AdminOrigin, TokenKeeper
from app.identity.store import Tokens
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.scheduling.store.clouds import Clouds

pytestmark = pytest.mark.anyio
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure'"


async def test_a_token_that_was_shown_stays_when_the_connections_were_lost(
    database_url: str, database: Database
) -> None:
    await database.execute("DELETE FROM token")
    keeper = TokenKeeper(Tokens(database), Clouds(database), Locks(database))
    async with keeper.admin(None) as shown:
        assert shown.origin is AdminOrigin.MADE
        for _ in range(2):
            await asyncio.to_thread(run_sql, database_url, CUT)
            await asyncio.sleep(5)
            async with keeper.admin(None) as later:
                assert later.origin is AdminOrigin.SHOWN
    async with keeper.admin(None) as next_one:
        assert next_one.origin is AdminOrigin.MADE, "nobody who has shown it runs any more"
