"""The bound on the database is a bound: a server that says nothing, or whose answers are lost, is an answer."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

import psutil
import pytest
from faults.proxy import Link
from servers import on_database
from sqlalchemy.engine import make_url
from test_scheduler import Process, make_cloud, on_demand, running

from app.domain.errors import LogUnavailable
from app.platform.asked import bounds_of_their_own, one_bound, waiting_since
from app.platform.database.bounds import Bounds
from app.platform.database.database import Database
from app.platform.database.lockids import FIRST_TOKEN_LOCK
from app.platform.database.locks import Locks
from app.platform.database.migrating import upgrade
from app.platform.database.signals import listen

pytestmark = pytest.mark.anyio

BOUND_S = 2.0
WITHIN_S = BOUND_S + 1.0


@dataclass
class Far:
    """A database behind a proxy."""

    link: Link
    database: Database


@pytest.fixture(params=["one connection", "several connections"])
async def far(external_server: str, request: pytest.FixtureRequest) -> AsyncIterator[Far]:
    url = on_database(external_server, "postgres")
    await asyncio.to_thread(upgrade, url)
    port = make_url(url).port
    assert port is not None
    link = Link("far", port)
    through = make_url(url).set(host="127.0.0.1", port=await link.listen()).render_as_string(hide_password=False)
    database = Database(through, timeout_s=BOUND_S, pool_size=1 if request.param == "one connection" else 10)
    yield Far(link, database)
    link.obey({"rule": "cut"})
    await database.close()


async def execute(database: Database) -> None:
    await database.execute("SELECT 1")


async def execute_directly(database: Database) -> None:
    await database.execute_directly("SELECT 1", {})


async def transact(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute("SELECT 1")
        await session.execute("SELECT 2")


async def take_lock(database: Database) -> None:
    async with Locks(database).held(FIRST_TOKEN_LOCK):
        pass


WAYS = [execute, execute_directly, transact, take_lock]


async def wait_in_vain(work: Awaitable[object]) -> None:
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        await work
    assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize("rule", ["vanish", "swallow"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_silent_database_is_an_answer_in_time(far: Far, way: Callable[[Database], Awaitable[None]], rule: str):
    far.link.obey({"rule": rule})
    await asyncio.gather(*(wait_in_vain(way(far.database)) for _ in range(3)))
    far.link.obey({"rule": "pass"})
    await way(far.database)
    far.link.obey({"rule": rule})  # now with a connection that is open
    await asyncio.gather(*(wait_in_vain(way(far.database)) for _ in range(3)))


async def hear(database: Database) -> None:
    async with aclosing(listen(database)) as notices, asyncio.timeout(2 * BOUND_S):
        await anext(notices)


@pytest.mark.parametrize("rule", ["vanish", "swallow"])
async def test_no_sockets_pile_up_while_the_database_is_silent(far: Far, rule: str):
    """Nor do they wait for the garbage collector, which may come late where much is in memory."""
    await asyncio.gather(*(way(far.database) for way in WAYS))
    far.link.obey({"rule": rule})
    gc.collect()
    gc.disable()
    try:
        before = sockets_of(far)
        for _ in range(3):
            tries = (way(far.database) for way in [*WAYS, hear] for _ in range(2))
            await asyncio.gather(*tries, return_exceptions=True)
        assert sockets_of(far) <= before
    finally:
        gc.enable()


def sockets_of(far: Far) -> int:
    """The number of this process's own ends of connections to the proxy."""
    connections = psutil.Process().net_connections("tcp")
    return sum(1 for one in connections if one.raddr and one.raddr.port == far.database.url.port)


async def test_the_steps_of_a_transaction_share_one_bound(far: Far):
    async def slowly() -> None:
        async with far.database.transaction() as session:
            await session.execute("SELECT pg_sleep(1.5)")
            await session.execute("SELECT pg_sleep(1.5)")

    await wait_in_vain(slowly())


async def test_a_commit_whose_answer_is_lost_is_an_answer_in_time(far: Far):
    async def commit() -> None:
        async with far.database.transaction() as session:
            await session.execute("SELECT 1")
            far.link.obey({"rule": "swallow"})

    await wait_in_vain(commit())


async def test_a_call_that_came_late_has_some_time_all_the_same(far: Far):
    with waiting_since(time.monotonic() - 60):
        await execute(far.database)
        far.link.obey({"rule": "vanish"})
        began = time.monotonic()
        with pytest.raises(LogUnavailable):
            await execute(far.database)
        assert time.monotonic() - began < BOUND_S


async def test_who_gives_up_waiting_is_let_go_in_time(far: Far):
    await execute(far.database)
    far.link.obey({"rule": "vanish"})
    waiting = asyncio.create_task(execute(far.database))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert time.monotonic() - began < WITHIN_S


async def test_requests_that_queue_behind_a_lost_answer_are_answered_in_time(far: Far):
    async with running(Process(far.database)) as process:
        name = await make_cloud(process, nodes=3)
        await process.scheduler.start(name, on_demand("first"))
        far.link.obey({"rule": "vanish"})
        waiting = []
        for number in range(4):
            waiting.append(asyncio.create_task(wait_in_vain(process.scheduler.start(name, on_demand(f"i-{number}")))))
            waiting.append(asyncio.create_task(wait_in_vain(process.scheduler.state(name))))
            await asyncio.sleep(0.4)
        await asyncio.gather(*waiting)
        far.link.obey({"rule": "pass"})
        assert (await process.scheduler.start(name, on_demand("last"))).decision.node is not None


async def test_a_bound_that_others_cut_short_cuts_none_short_after_it():
    """Else a line of callers whose bounds end one after another keeps itself up when the database is back."""
    bounds = Bounds(0.5)
    for left_s, cuts in ((0.5, True), (0.1, False)):
        before = bounds.ended_at
        with (
            pytest.raises(TimeoutError),
            waiting_since(time.monotonic() - 0.5 + left_s),
            bounds.bound() as bound,
        ):
            await bound.connected(asyncio.sleep(5))
        assert (bounds.ended_at > before) is cuts


async def sleep(database: Database, seconds: float) -> None:
    await database.execute("SELECT pg_sleep(%(seconds)s)", {"seconds": seconds})


async def test_the_calls_of_one_request_have_one_bound(external_server: str):
    database = Database(on_database(external_server, "postgres"), timeout_s=4.0)
    try:
        await sleep(database, 0)
        began = time.monotonic()
        with one_bound():
            await asyncio.sleep(1)  # not yet counted: it asks for nothing
            await sleep(database, 2.5)
            with pytest.raises(LogUnavailable):
                await sleep(database, 60)
            with pytest.raises(LogUnavailable):
                await sleep(database, 60)
        assert 4.5 < time.monotonic() - began < 7.5, "the sum of three bounds is twelve seconds"
        with one_bound(), bounds_of_their_own():
            for _ in range(2):
                await sleep(database, 2.5)
        await sleep(database, 3)
    finally:
        await database.close()
