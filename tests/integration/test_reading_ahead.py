"""A worker reads the log of an import while it grows; the first table is the one of the whole log all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from test_imports import Killed, kill_after, log_of, of, run

from app.domain.policies import protected_policy
from app.domain.times import DAY_US
from app.forecast.compute import MOST_BESIDE, Forecaster
from app.forecasts.ahead import ReadingAhead
from app.forecasts.places import Places
from app.forecasts.recompute import Forecasts
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.platform.database.database import Database
from app.platform.database.lockids import forecast_lock
from app.platform.database.locks import Locks
from app.scheduling.appending import Logs, States
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.workbench.synthesis import synthesize
from app.workbench.workload import write_trace

pytestmark = pytest.mark.anyio

NOW_US = 20_000 * DAY_US


class Worker(NamedTuple):
    """The parts of a worker that make first tables, and how many events its log was asked for."""

    forecasts: Forecasts
    ahead: ReadingAhead
    asked: list[int]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "od.csv"
    with path.open("w") as file:
        write_trace(synthesize(days=5, mean_utilisation=10, cores=1, seed=2), file)
    return path


@pytest.fixture
async def worker(database: Database) -> AsyncIterator[Worker]:
    log, asked = EventLog(database), []
    heads = LogHeads(database, log, None)
    tail = log.tail

    async def told(cloud_id: int, after_seq: int, limit: int) -> object:
        asked.append(limit)
        return await tail(cloud_id, after_seq, limit)

    log.tail = told  # type: ignore[method-assign,assignment]
    states = States(Logs(log, Snapshots(database), heads))
    with ThreadPoolExecutor(2) as executor:
        places, locks = Places(executor, 2), Locks(database)
        forecasts = Forecasts(log, states, Tables(database), Runs(database), locks, places, lambda: NOW_US)
        yield Worker(forecasts, ReadingAhead(Clouds(database), forecasts, locks), asked)


async def table_of(database: Database, cloud: str) -> tuple[bytes, bytes]:
    """Return the published table, and the one that its log gives to somebody who reads it from its beginning."""
    cloud_id = await Clouds(database).id_of(cloud)
    published = await Tables(database).newest(cloud_id)
    assert published is not None
    log = await log_of(database, cloud)
    policy = await EventLog(database).policy_at(cloud_id, published.seq)
    forecaster = Forecaster(policy, policy.forecasts(), most_replayed=MOST_BESIDE)
    forecaster.extend(log)
    return published.data, forecaster.publish(published.epoch_us, published.epoch, published.seq).to_bytes()


async def test_what_an_import_has_written_is_read_before_it_ends(
    database: Database, worker: Worker, trace: Path
) -> None:
    """With a policy as `tenure import` makes it: once the past is over, spot starts displace what overruns."""
    imports, policy = of(database, NOW_US), protected_policy({})
    kill_after(imports, 2)
    with pytest.raises(Killed):
        await run(imports, "ahead", trace, policy=policy)
    written = len(await log_of(database, "ahead"))
    following = asyncio.create_task(worker.ahead.follow_imports())
    await asyncio.sleep(1)
    imported = await run(of(database, NOW_US), "ahead", trace, policy=policy)
    await asyncio.wait_for(following, 300)
    assert imported.there_count == written > 0
    assert imported.written_count > 0
    assert worker.asked == []  # the whole log was read as it grew
    published, anew = await table_of(database, "ahead")
    assert published == anew


async def test_an_import_that_was_cut_off_is_not_waited_for(
    database: Database, worker: Worker, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.forecasts.ahead._QUIET_S", 0.5)
    imports = of(database, NOW_US)
    kill_after(imports, 1)
    with pytest.raises(Killed):
        await run(imports, "cut", trace)
    cut = await imports._clouds.find("cut")
    assert cut is not None
    assert await asyncio.wait_for(worker.ahead.follow_imports(), 300) == 1
    assert await worker.forecasts.read_ahead(cut[0]) == 0
    async with Locks(database).held(forecast_lock(cut[0])) as hold:
        assert hold is not None
    assert await Tables(database).newest(cut[0]) is None
    await imports.abandon("cut")
    assert await worker.ahead.follow_imports() == 0


async def test_what_was_read_of_another_log_does_not_count(database: Database, worker: Worker, trace: Path) -> None:
    imports = of(database, NOW_US)
    kill_after(imports, 2)
    with pytest.raises(Killed):
        await run(imports, "other", trace)
    found = await imports._clouds.find("other")
    assert found is not None
    assert await worker.forecasts.read_ahead(found[0]) > 0
    last_seq = await EventLog(database).last_seq(found[0])
    sql = "UPDATE event SET data = jsonb_set(data, '{at_us}', to_jsonb((data->>'at_us')::bigint + 1))"
    where = {"id": found[0], "seq": last_seq}
    await database.execute(f"{sql} WHERE cloud_id = %(id)s AND seq = %(seq)s", where)
    await database.execute("DELETE FROM event WHERE cloud_id = %(id)s AND seq = %(seq)s", where)
    await run(of(database, NOW_US + 1_000_000), "other", trace)
    await worker.forecasts.run_pending()
    published, anew = await table_of(database, "other")
    assert published == anew


async def test_an_import_is_followed_by_one_worker(database: Database, worker: Worker, trace: Path) -> None:
    imports = of(database, NOW_US)
    kill_after(imports, 1)
    with pytest.raises(Killed):
        await run(imports, "one", trace)
    found = await imports._clouds.find("one")
    assert found is not None
    async with Locks(database).held(forecast_lock(found[0])) as hold:
        assert hold is not None
        await worker.ahead.follow_imports()
        assert found[0] not in worker.forecasts._replays
    await imports.abandon("one")
