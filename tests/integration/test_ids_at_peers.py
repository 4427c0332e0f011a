"""Two clouds of one service whose jobs have the same id: a host would take them for one, so only one is offered."""

from __future__ import annotations

import asyncio

import pytest
from peer_jobs import submit

from app.domain.events import CloudCreated, FlavorAdded, JobDeclined
from app.domain.values import Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from benchmarks.peer_open import Peer, fill


async def declined(database: Database, cloud: str, job: str) -> list[str]:
    log = await EventLog(database).tail(await Clouds(database).id_of(cloud), 0, 1000)
    return [one.event.reason for one in log if isinstance(one.event, JobDeclined) and one.event.job == job]


@pytest.mark.anyio
async def test_the_second_cloud_does_not_offer_an_id_that_the_first_has_offered(
    database: Database, database_url: str
) -> None:
    far = Peer()
    server = await asyncio.start_server(far.answer, "127.0.0.1", 0)
    async with server:
        await fill(database, 1, server.sockets[0].getsockname()[1])
        cloud = Cloud()
        opening = cloud.apply(CloudCreated(at_us=1, policy=Policy(guarantee=Guarantee.NONE)))
        other = await Clouds(database).create("other", opening)
        flavor = FlavorAdded(at_us=1, flavor="c1", demand=Resources(1))
        await EventLog(database).append(other, [cloud.apply(flavor)])
        await submit(database, "open", "same")
        async with open_worker(Settings(database_url=database_url, peer_allow_private=True)) as worker:
            while "same" not in far.jobs:
                await worker.job_keeper.keep_jobs()
            for job in ("same", "own"):
                await submit(database, "other", job)
            while "own" not in far.jobs:
                await worker.job_keeper.keep_jobs()
            while not await declined(database, "other", "same"):
                await worker.job_keeper.keep_jobs()
    assert await declined(database, "other", "same") == ["id_taken"]
    for name, job in (("open", "same"), ("other", "own")):
        assert "id_taken" not in await declined(database, name, job), "the host was asked"
