"""A process whose host vanishes, with its connections open, holds up the others for a bounded time only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, suppress
from dataclasses import dataclass

import pytest
from faults.proxy import Link, Rule
from servers import on_database
from sqlalchemy.engine import make_url
from test_scheduler import Process, make_cloud, on_demand, running

from app.domain.errors import LogUnavailable
from app.forecast.table import QuantileTable
from app.forecasts.store.tables import Tables
from app.forecasts.tables import LOOK_S
from app.platform.background import background
from app.platform.database.database import Database
from app.platform.database.lockids import DELIVERY_LOCK, forecast_lock
from app.platform.database.locks import LockPauses, Locks
from app.platform.database.migrating import upgrade
from app.platform.database.signals import Resync, RunRequested, announce, listen
from app.scheduling.store.conflicts import TurnLost
from app.scheduling.store.log import EventLog

pytestmark = pytest.mark.anyio
_STARTS_STALL_S = 3.0
_PAUSES = LockPauses(lost_after_s=3.0, beat_s=0.6)
"""Shorter than a process's own, so that little is waited for."""
_LOCKS_STALL_S = _PAUSES.lost_after_s + 5.0


@dataclass
class Two:
    """One database, reached directly and by a host that can vanish."""

    near: Database
    far: Database
    link: Link


@pytest.fixture
async def two(external_server: str) -> AsyncIterator[Two]:
    url = on_database(external_server, "postgres")
    await asyncio.to_thread(upgrade, url)
    port = make_url(url).port
    assert port is not None
    link = Link("far", port)
    through = make_url(url).set(host="127.0.0.1", port=await link.listen()).render_as_string(hide_password=False)
    near, far = Database(url), Database(through)
    yield Two(near, far, link)
    link.obey({"rule": "cut"})
    await far.close()
    await near.close()


async def test_starts_go_on_when_the_host_of_a_turns_holder_vanishes(two: Two):
    async with running(Process(two.near)) as process:
        name = await make_cloud(process, nodes=3)
        cloud_id = await process.scheduler.cloud_id(name)
        await process.scheduler.start(name, on_demand("first"))  # compiles, if nothing has yet
        (await process.scheduler._sequencer(name))._appender._take_turns_until = time.monotonic() + 60
        async with AsyncExitStack() as held:
            held.enter_context(suppress(LogUnavailable, TurnLost))
            await held.enter_async_context(EventLog(two.far).locked(cloud_id))
            two.link.obey({"rule": "vanish"})
            longest_s = 0.0
            for number in range(5):
                began = time.monotonic()
                await process.scheduler.start(name, on_demand(f"i-{number}"))
                longest_s = max(longest_s, time.monotonic() - began)
            assert longest_s < _STARTS_STALL_S


async def test_a_listener_whose_connection_leads_nowhere_listens_anew(two: Two):
    """A proxy in between takes its bytes and keeps it up, so the system has nothing to tell."""
    async with aclosing(listen(two.far)) as notices:
        assert await anext(notices) == Resync()
        heard = asyncio.ensure_future(anext(notices))
        assert (await asyncio.wait([heard], timeout=8))[1], "as long as it can hear, it is left as it is"
        two.link.obey({"rule": "deafen"})
        assert await asyncio.wait_for(heard, 12) == Resync()
        heard = asyncio.ensure_future(anext(notices))
        async with two.near.transaction() as session:
            await announce(session, RunRequested(1, 7))
        assert await asyncio.wait_for(heard, 2) == RunRequested(1, 7)


async def test_a_listener_that_gets_no_answer_before_it_listens_begins_anew(two: Two):
    """The connection comes about, and nothing that is asked over it is answered."""
    hasty = Database(two.far.url.render_as_string(hide_password=False), timeout_s=2)
    two.link.obey({"rule": "fall_silent", "count": 2})
    async with aclosing(listen(hasty)) as notices:
        heard = asyncio.ensure_future(anext(notices))
        assert (await asyncio.wait([heard], timeout=1.5))[1]
        two.link._rule = Rule()  # for the connections to come: those that are open stay silent
        assert await asyncio.wait_for(heard, 15) == Resync()
    await hasty.close()


async def test_a_table_that_nobody_announces_is_found_within_seconds(two: Two):
    process = Process(two.far)
    name = await make_cloud(process, nodes=1)
    cloud_id = await process.scheduler.cloud_id(name)
    assert await process.table(name) is None
    table = QuantileTable(epoch=1, epoch_us=10, seq=1, curves={}).to_bytes()
    await Tables(two.near).publish(cloud_id, epoch=1, epoch_us=10, seq=1, data=table, wall_s=0.1)
    assert process.tables.newest(cloud_id) is None
    async with background(looking=process.tables.keep_looking):
        await asyncio.sleep(LOOK_S + 2)
        assert process.tables.newest(cloud_id) is not None
    await process.scheduler.close()


def hold_delivery(locks: Locks) -> AbstractAsyncContextManager[object]:
    return locks.held(DELIVERY_LOCK)


def hold_forecast(locks: Locks) -> AbstractAsyncContextManager[object]:
    return locks.held(forecast_lock(7))


@pytest.mark.parametrize("hold", [hold_delivery, hold_forecast])
async def test_a_lock_passes_on_when_the_host_of_its_holder_vanishes(
    two: Two, hold: Callable[[Locks], AbstractAsyncContextManager[object]]
):
    async with AsyncExitStack() as held:
        held.enter_context(suppress(LogUnavailable))
        assert await held.enter_async_context(hold(Locks(two.far, _PAUSES))) is not None
        async with hold(Locks(two.near)) as taken:
            assert taken is None
        two.link.obey({"rule": "vanish"})
        began = time.monotonic()
        while True:
            async with hold(Locks(two.near)) as taken:
                if taken is not None:
                    break
            assert time.monotonic() - began < _LOCKS_STALL_S
            await asyncio.sleep(0.2)
