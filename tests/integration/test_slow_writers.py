"""A writer that is slower than another one on the same log asks it for turns, and so is not too late for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic

import pytest

from app.domain.errors import LogContended
from app.domain.events import CloudCreated, NodeAdded, Recorded
from app.domain.events.formats import LOG_FORMAT
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.scheduling import appending
from app.scheduling.appending import Appender, Logs, States
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog, LogAccess
from app.scheduling.store.snapshots import Snapshots

_SLOW_S = 0.05


async def append_node(appender: Appender, name: str, pause_s: float = 0.0) -> int:
    """Append a node after a while of deciding; return how often that was decided."""
    decided = 0

    async def decide(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
        nonlocal decided
        decided += 1
        await asyncio.sleep(pause_s)
        return [cloud.apply(NodeAdded(at_us=cloud.at_us, node=name, capacity=Resources(1)))]

    await appender.append_decided(decide)
    return decided


@asynccontextmanager
async def appender_of(database_url: str, cloud_id: int) -> AsyncIterator[Appender]:
    """Yield the appender of a process of its own."""
    database = Database(database_url)
    database.newer.log_format = LOG_FORMAT
    log = EventLog(database)
    heads = LogHeads(database, log)
    async with heads.kept_up():
        yield States(Logs(log, Snapshots(database), heads)).appender(cloud_id)
    await database.close()


@asynccontextmanager
async def busy(appender: Appender) -> AsyncIterator[None]:
    """Append one node after another within the block."""

    async def append_for_ever() -> None:
        for number in range(100_000):
            await append_node(appender, f"fast-{number}")

    task = asyncio.create_task(append_for_ever())
    try:
        yield
        assert not task.done(), "it was busy all the time"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.anyio
async def test_a_slow_writer_has_its_turn_beside_a_fast_one(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_agreement(database)
    opening = CloudCreated(at_us=1, policy=Policy(guarantee=Guarantee.NONE))
    cloud_id = await Clouds(database).create("busy", Cloud().apply(opening))
    async with appender_of(database_url, cloud_id) as fast, appender_of(database_url, cloud_id) as slow:
        await append_node(fast, "first")
        await slow.current()
        async with busy(fast):
            with monkeypatch.context() as patched:
                patched.setattr(appending, "_ASKS_FOR_TURNS", 0)
                with pytest.raises(LogContended):
                    await append_node(slow, "too-late", _SLOW_S)
            began_s = monotonic()
            for number in range(3):
                decided = await append_node(slow, f"slow-{number}", _SLOW_S)
                assert decided <= 2 * appending._ASKS_FOR_TURNS
            assert monotonic() - began_s < appending._TAKE_TURNS_S
