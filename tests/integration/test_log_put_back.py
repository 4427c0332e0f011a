"""A database that is put back under running processes: they recover by themselves, and the log has no gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from test_scheduler import (
    EXTERNAL,
    UNGUARDED,
    Process,
    finished,
    lost_batches,
    make_cloud,
    on_demand,
    running,
    schedule_of,
    spot,
    worker,
)

from app.admission.outcomes import Started
from app.domain import errors
from app.domain.requests import StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, NodeStatus, Policy, RunCause
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.platform.database.database import Database
from app.scheduling.appending import States
from app.scheduling.jobs import Snapshotting
from app.scheduling.store.clouds import Clouds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def process(database: Database) -> AsyncIterator[Process]:
    ticks = iter(range(10**6, 10**9))
    async with running(Process(database, lambda: next(ticks))) as process:
        yield process


@pytest.fixture
async def other(database: Database) -> AsyncIterator[Process]:
    ticks = iter(range(2 * 10**9, 3 * 10**9))
    async with running(Process(database, lambda: next(ticks))) as process:
        yield process


async def cut(process: Process, name: str, last_seq: int) -> int:
    """Put the cloud's log back to an earlier end, as a restored database has it; its number."""
    cloud_id = await process.scheduler.cloud_id(name)
    await process.database.execute(f"DELETE FROM event WHERE cloud_id = {cloud_id} AND seq > {last_seq}")
    return cloud_id


async def check_whole(process: Process, name: str) -> None:
    """The log has no gap, and its fold is the state."""
    state = await process.scheduler.state(name)
    folded = await process.folded(name)
    assert (folded.seq, folded.digest()) == (state.seq, state.digest())


async def test_a_process_that_knows_more_than_the_log_forgets_it_and_goes_on(process: Process):
    name = await make_cloud(process)
    for number in range(3):
        await process.scheduler.start(name, spot(f"i-{number}"))
    await cut(process, name, 5)
    lost = await lost_batches(process, name)
    answer = await process.scheduler.start(name, spot("again"))
    assert (answer.seq, lost) == (6, ["rewound"])
    assert set((await process.scheduler.state(name)).running) == {"i-0", "again"}
    await check_whole(process, name)


async def test_a_log_that_was_put_back_is_counted_also_if_it_is_found_by_reading(process: Process):
    name = await make_cloud(process)
    await process.scheduler.start(name, spot("lost"))
    await cut(process, name, 4)
    lost = await lost_batches(process, name)
    for _ in range(2):
        await process.scheduler.state(name)
    assert lost == ["rewound"]


@pytest.mark.parametrize("ask", ["stop", "batch", "state", "repeat", "node"])
async def test_whatever_is_asked_first_is_answered_from_the_log_that_is_there(process: Process, ask: str):
    name = await make_cloud(process)
    for number in range(3):
        await process.scheduler.start(name, spot(f"i-{number}"))
    await process.scheduler.drain_node(name, "node-0", None)
    await cut(process, name, 6)
    scheduler = process.scheduler
    if ask == "stop":
        with pytest.raises(errors.InstanceNotFound):
            await scheduler.stop(name, StopRequest("i-2"))
    elif ask == "batch":
        gone, there = await scheduler.batch(name, [StopRequest("i-2"), spot("i-0")])
        assert isinstance(gone, errors.InstanceNotFound)
        assert isinstance(there, Started)
    elif ask == "state":
        assert (await scheduler.state(name)).seq == 6
    elif ask == "repeat":
        assert not (await scheduler.start(name, spot("i-2"))).repeated
    else:
        await scheduler.drain_node(name, "node-0", None)
        assert (await scheduler.state(name)).nodes["node-0"].status is NodeStatus.DRAINED
    await check_whole(process, name)


@pytest.mark.parametrize("length", [2, 4, 9])
async def test_a_log_that_grew_again_is_not_taken_for_the_old_one(process: Process, other: Process, length: int):
    """The other process has written a shorter, an equally long or a longer log where the old one was."""
    name = await make_cloud(process, nodes=5)
    for number in range(4):
        await process.scheduler.start(name, spot(f"old-{number}"))
    end = (await process.scheduler.state(name)).seq
    await cut(process, name, end - 4)
    for number in range(length):
        await other.scheduler.start(name, spot(f"new-{number}"))
    with pytest.raises(errors.InstanceNotFound):
        await process.scheduler.stop(name, StopRequest("old-3"))
    assert (await process.scheduler.start(name, on_demand("next"))).seq == end - 4 + length + 1
    expected = {f"new-{number}" for number in range(length)} | {"next"}
    assert set((await process.scheduler.state(name)).running) == expected
    await check_whole(process, name)
    await check_whole(other, name)


async def test_nothing_is_decided_over_lost_events_of_the_same_time(database: Database):
    """The log that grew again is as long as the old one, and its last event has the old one's time."""
    async with running(Process(database)) as process, running(Process(database)) as other:
        name = await make_cloud(process, replace(UNGUARDED, clock=Clock.EXTERNAL), nodes=5)
        await process.scheduler.start(name, spot("old", at_us=SECOND_US))
        await process.scheduler.stop(name, StopRequest("old", SECOND_US))
        await cut(process, name, (await process.scheduler.state(name)).seq - 1)
        await other.scheduler.start(name, spot("new", at_us=SECOND_US))
        await process.scheduler.start(name, spot("next", at_us=SECOND_US))
        assert set((await process.scheduler.state(name)).running) == {"old", "new", "next"}
        await check_whole(process, name)
        await check_whole(other, name)


async def test_the_other_log_is_told_by_its_events_where_times_are_the_same(database: Database):
    async with running(Process(database)) as process, running(Process(database)) as other:
        name = await make_cloud(process, replace(UNGUARDED, clock=Clock.EXTERNAL), nodes=5)
        for number in range(4):
            await process.scheduler.start(name, spot(f"old-{number}", at_us=SECOND_US))
        await cut(process, name, 7)
        for number in range(6):
            await other.scheduler.start(name, spot(f"new-{number}", at_us=SECOND_US))
        assert set((await process.scheduler.state(name)).running) == {f"new-{number}" for number in range(6)}
        await check_whole(process, name)


async def test_a_cloud_that_is_gone_is_not_found_and_its_number_is_not_another_clouds(process: Process):
    name, later = await make_cloud(process), await make_cloud(process)
    await process.scheduler.start(name, spot("a"))
    for gone in (name, later):
        await cut(process, gone, 0)
        await process.database.execute(f"DELETE FROM cloud WHERE name = '{gone}'")
    with pytest.raises(errors.CloudNotFound):
        await process.scheduler.start(name, spot("b"))
    with pytest.raises(errors.CloudNotFound):
        await process.scheduler.state(later)
    await process.scheduler.create_cloud(name, UNGUARDED, None)
    assert (await process.scheduler.state(name)).seq == 1


async def test_a_snapshot_ahead_of_the_log_is_removed(process: Process, database: Database):
    name = await make_cloud(process)
    for number in range(3):
        await process.scheduler.start(name, spot(f"i-{number}"))
    snapshotting = Snapshotting(Clouds(database), States(process.logs), process.snapshots, every_events=1)
    await snapshotting.take_due()
    cloud_id = await cut(process, name, 5)
    async with running(Process(database)) as fresh:
        assert (await fresh.scheduler.state(name)).seq == 5
    assert await process.snapshots.newest_seq(cloud_id) is None
    await snapshotting.take_due()
    assert await process.snapshots.newest_seq(cloud_id) == 5


@pytest.mark.parametrize("first_missing", [3, 5])
async def test_a_gap_is_a_readable_error_that_names_the_remedy(process: Process, first_missing: int):
    name = await make_cloud(process)
    for number in range(3):
        await process.scheduler.start(name, spot(f"i-{number}"))
    cloud_id = await process.scheduler.cloud_id(name)
    await process.database.execute(f"DELETE FROM event WHERE cloud_id = {cloud_id} AND seq = {first_missing}")
    async with running(Process(process.database)) as fresh:
        with pytest.raises(errors.LogBroken, match=rf"events {first_missing} to {first_missing} are missing.*backup"):
            await fresh.scheduler.start(name, spot("b"))
        with pytest.raises(errors.LogBroken):
            await fresh.scheduler.state(name)
        await cut(process, name, first_missing - 1)
        assert (await fresh.scheduler.state(name)).seq == first_missing - 1


async def test_tables_of_a_lost_log_go_and_epochs_go_on_behind_those_of_the_log(process: Process, database: Database):
    name = await make_cloud(process, EXTERNAL, nodes=3)
    cloud_id = await process.scheduler.cloud_id(name)
    async with worker(process, lambda: 0):
        decided = await process.scheduler.start(name, spot("a", at_us=DAY_US))
        assert decided.decision.basis is not None
        assert decided.decision.basis.epoch == 1
        # A backup without tables: the log names epoch 1, and the next table is not another epoch 1.
        await database.execute(f"DELETE FROM quantile_table WHERE cloud_id = {cloud_id}")
        again = await process.scheduler.start(name, spot("b", at_us=2 * DAY_US))
        assert again.decision.basis is not None
        assert again.decision.basis.epoch == 2
    # The log is put back behind the table: what was computed from lost events decides nothing.
    await cut(process, name, 3)
    schedule = schedule_of(process, lambda: 0)
    await schedule.request_changed()
    assert await Tables(database).page(cloud_id, 1) == []


async def test_a_table_that_a_put_back_backup_does_not_hold_is_asked_for_again(process: Process, database: Database):
    now = [DAY_US]
    async with running(Process(database, lambda: now[0])) as api, worker(api, lambda: now[0]) as schedule:
        cloud_id = await api.scheduler.cloud_id(await make_cloud(api, Policy(sample_count=100)))

        async def look() -> list[int]:
            await schedule.request_due()
            await finished(api, cloud_id)
            await schedule.request_changed()
            return [table.epoch_us for table in await Tables(database).page(cloud_id, 10)]

        first, second = (DAY_US + hours * HOUR_US for hours in (6, 12))
        now[0] += 7 * HOUR_US
        assert await look() == [first]
        now[0] += 6 * HOUR_US
        assert await look() == [second, first]
        now[0] += HOUR_US
        await Runs(database).request(cloud_id, RunCause.REQUESTED, None)
        assert await look() == [now[0], second, first]
        for lost, left in (("> 1", [first]), ("> 0", [])):
            await database.execute(f"DELETE FROM quantile_table WHERE cloud_id = {cloud_id} AND epoch {lost}")
            await schedule.request_changed()
            assert await look() == [second, *left]
            runs = await finished(api, cloud_id)
            assert await look() == [second, *left]
            assert await finished(api, cloud_id) == runs, "what is there is not asked for again"


async def test_what_rests_on_lost_events_goes_although_the_log_grows_again_at_once(database: Database):
    now = [DAY_US]
    async with running(Process(database, lambda: now[0])) as api, worker(api, lambda: now[0]):
        name = await make_cloud(api, Policy(sample_count=100))
        cloud_id = await api.scheduler.cloud_id(name)
        await computed(api, cloud_id)
        for number in range(3):
            now[0] += SECOND_US
            await api.scheduler.start(name, on_demand(f"lost-{number}"))
        now[0] += DAY_US
        await computed(api, cloud_id)
        await api.snapshots.save(cloud_id, await api.scheduler.state(name))
        held = await api.tables.load(cloud_id)
        assert held is not None
        first, second = sorted(table.seq for table in await Tables(database).page(cloud_id, 10))
        assert (first, held.seq) == (second - 3, second)
        await cut(api, name, second - 2)
        for number in range(6):
            await api.scheduler.start(name, on_demand(f"new-{number}"))
        assert [table.seq for table in await Tables(database).page(cloud_id, 10)] == [first]
        assert await api.snapshots.newest_seq(cloud_id) is None
        looking = asyncio.create_task(api.tables.keep_looking())
        for _ in range(200):
            await asyncio.sleep(0.1)
            if (held := await api.table(name)) is not None and held.seq == first:
                break
        looking.cancel()
        assert held is not None
        assert held.seq == first


async def test_a_worker_replays_the_log_that_is_there(process: Process, database: Database):
    now = [DAY_US]
    async with running(Process(database, lambda: now[0])) as api, worker(api, lambda: now[0]):
        name = await make_cloud(api, Policy(sample_count=100))
        for number in range(3):
            now[0] += SECOND_US
            await api.scheduler.start(name, on_demand(f"i-{number}"))
        cloud_id = await api.scheduler.cloud_id(name)
        await computed(api, cloud_id)
        await cut(api, name, 5)
        now[0] += DAY_US
        await computed(api, cloud_id)
        table = await api.table(name)
        assert table is not None
        assert table.seq == 5


async def computed(process: Process, cloud_id: int) -> None:
    """Have a table computed."""
    runs = Runs(process.database)
    run = await runs.request(cloud_id, RunCause.REQUESTED, None)
    for _ in range(18_000):  # the first table of an installation waits for the compiler
        if (await runs.get(cloud_id, run.number)).epoch is not None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no table was computed")
