"""Wherever one caller's requests wait for a connection, those of another one go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from app.clusters.costing import ClusterCosts
from app.clusters.described import spec_of
from app.clusters.keeping import ClusterKeeper
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee
from app.following.feed import Feed
from app.forecasts.table_reads import TableReads
from app.observing.service import CloudWatch
from app.planning.plans import Plans
from app.planning.wire import PlanBody
from app.platform.asked import asked_by, reading
from app.platform.clock import ServerClock
from app.platform.database.database import Database
from app.platform.database.places import ConnectionPlaces
from app.platform.settings import Settings
from app.processes.service_wiring import Services, open_services
from app.scheduling.scheduler import Scheduler
from app.venues.quoting import QuoteQuestion
from app.venues.reads import VenueReads
from app.venues.rules.history import PoolName
from app.venues.store.prices import GivenPrices, VenuePriceStore

pytestmark = pytest.mark.anyio
Ask = Callable[[Services], Awaitable[object]]
PLAN = {
    "jobs": [{"id": "train", "work_s": 3600, "value": 9}],
    "venues": ["market"],
    "rates": [{"name": "told", "price": 1, "lost_in_a_month": 0.1}],
}
numbers = count()


async def cost(services: Services) -> object:
    return await services[ClusterCosts].read(await services[ClusterKeeper].show("lab"))


async def plan(services: Services) -> object:
    return await services[Plans].make(PlanBody.model_validate(PLAN | {"id": f"plan-{next(numbers)}"}).request())


async def first_events(services: Services) -> object:
    return await anext(services[Feed].follow(await services[Scheduler].cloud_id("shop"), 0))


ASKS: dict[str, Ask] = {
    "clusters": lambda services: services[ClusterKeeper].list(None, 10),
    "cost": cost,
    "quotes": lambda services: services[VenueReads].quotes("market", QuoteQuestion(HOUR_US, 0.9)),
    "plan": plan,
    "clouds": lambda services: services[CloudWatch].clouds(),
    "table": lambda services: services[TableReads].newest("shop"),
    "events": first_events,
}


@pytest.fixture(scope="module")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(database_url=database_url, data_dir=Path(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
async def furnished(settings: Settings, database_url: str) -> Settings:
    """A cloud, a venue, and a cluster with a past in it."""
    async with open_services(settings) as services:
        scheduler, keeper = services[Scheduler], services[ClusterKeeper]
        await scheduler.create_cloud("shop", scheduler.new_policy({"guarantee": Guarantee.NONE}), None)
        pool = {"name": "all", "cloud": "shop", "flavor": "c1", "market": "spot", "max_nodes": 4}
        await keeper.put("lab", spec_of({"max_nodes": 4, "pools": [pool]}))
        now_us = services[ServerClock].now_us()
    at_us = np.arange(now_us - 10 * DAY_US, now_us, HOUR_US, dtype=np.int64)
    rows = {PoolName("aws", "r", "ra", "m5.large", "Linux/UNIX"): (at_us, np.full(len(at_us), 50_000, np.int64))}
    database = Database(database_url)
    await VenuePriceStore(database).write("market", GivenPrices(rows, "USD", {}, [], {}))
    await database.close()
    return settings


class _StoppedLine:
    """The line of the caller "loud", that stops after so many places."""

    def __init__(self, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left, self.stopped, take = after, asyncio.Event(), ConnectionPlaces.take

        async def taken(places: ConnectionPlaces, caller: Hashable, group: Hashable) -> None:
            if caller == "loud" and not self._left:
                self.stopped.set()
                await asyncio.Event().wait()
            self._left -= caller == "loud"
            await take(places, caller, group)

        monkeypatch.setattr(ConnectionPlaces, "take", taken)


async def asked(services: Services, ask: Ask, caller: str) -> object:
    asked_by(caller)
    with reading():
        return await ask(services)


@pytest.mark.parametrize("name", ASKS)
async def test_others_go_on(name: str, furnished: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for after in count():
        async with open_services(furnished) as services:
            with monkeypatch.context() as patched:
                line = _StoppedLine(after, patched)
                loud = asyncio.create_task(asked(services, ASKS[name], "loud"))
                stopped = asyncio.create_task(line.stopped.wait())
                await asyncio.wait([loud, stopped], return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait_for(asyncio.create_task(asked(services, ASKS[name], "quiet")), 5)
                loud.cancel(), stopped.cancel()
                await asyncio.gather(loud, stopped, return_exceptions=True)
            if not line.stopped.is_set():
                await loud
                return
