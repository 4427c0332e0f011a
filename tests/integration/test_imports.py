"""Importing into a real database: once, twice, half-way and on, with other files, and beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from app.domain.errors import CloudExists
from app.domain.events import CloudCreated, NodeAdded, PolicyChanged, Recorded
from app.domain.inputs import InputError
from app.domain.policies import protected
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, Guarantee, Policy, Resources
from app.forecasts.store.runs import Runs
from app.importing.errors import CloudNotImported, ImportRefused, ImportRunning, OtherPast
from app.importing.past import Past, Wishes
from app.importing.service import BATCH, Import, Imported, Imports, rehearse
from app.importing.store.imports import ImportedClouds
from app.importing.store.scratch import Scratch
from app.observing.store import Observations
from app.platform.database.database import Database
from app.platform.database.lockids import import_lock
from app.platform.database.locks import Locks
from app.platform.database.signals import listen
from app.scheduling.states import load_state
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.workbench.import_formats.files import read_past
from app.workbench.synthesis import synthesize
from app.workbench.workload import write_trace

pytestmark = pytest.mark.anyio

NOW_US = 20_000 * DAY_US
NODES = (Resources(4),) * 3
POLICY = Policy()


class Killed(Exception):
    """Raised at the place at which a process would have died."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three crowded days, of several batches."""
    path = tmp_path_factory.mktemp("trace") / "od.csv"
    with path.open("w") as file:
        write_trace(synthesize(days=5, mean_utilisation=10, cores=1, seed=1), file)
    return path


@pytest.fixture
def imports(database: Database) -> Imports:
    return of(database, NOW_US)


def of(database: Database, now_us: int) -> Imports:
    log, snapshots, runs = EventLog(database), Snapshots(database), Runs(database)
    return Imports(ImportedClouds(database), log, snapshots, runs, Locks(database), lambda: now_us)


@contextmanager
def wanted(
    cloud: str, trace: Path, policy: Policy = POLICY, nodes: tuple[Resources, ...] = NODES, *, recorded: bool = False
) -> Iterator[Import]:
    with Scratch() as scratch:
        past = Past(scratch, [str(trace)], Wishes(nodes))
        read_past(past, [trace], [])
        yield Import(cloud, past, past.finish(), policy, recorded)


async def run(imports: Imports, cloud: str, trace: Path, **how: object) -> Imported:
    with wanted(cloud, trace, **how) as asked:  # type: ignore[arg-type]
        return await imports.run(asked)


async def log_of(database: Database, cloud: str) -> list[Recorded]:
    found = await ImportedClouds(database).find(cloud)
    assert found is not None
    return await EventLog(database).tail(found[0], 0, 1_000_000)


def kill_after(imports: Imports, appends: int) -> None:
    """Let the process die in its append after so many."""
    append, count = imports._log.append, 0

    async def counted(cloud_id: int, recorded: list[Recorded]) -> None:
        nonlocal count
        if count == appends:
            raise Killed
        count += 1
        await append(cloud_id, recorded)

    imports._log.append = counted  # type: ignore[method-assign]


async def test_an_import_is_the_beginning_of_a_log(database: Database, imports: Imports, trace: Path) -> None:
    imported = await run(imports, "whole", trace)
    log = await log_of(database, "whole")
    cloud = imported.decider.cloud
    assert (imported.there_count, imported.written_count) == (0, len(log))
    assert len(log) > 3 * BATCH
    assert log[-1].event.at_us == NOW_US
    assert isinstance(log[0].event, CloudCreated)
    assert log[0].event.policy.guarantee is Guarantee.NONE
    cloud_id = await Clouds(database).find("whole")
    assert cloud_id is not None
    folded = (await load_state(cloud_id, EventLog(database), Snapshots(database))).cloud
    assert folded.digest() == cloud.digest()
    assert folded.policy == Policy()
    (request,) = await Runs(database).page(cloud_id, 10)
    assert (request.status, request.due_us) == ("pending", None)


async def started_again(database: Database, run_id: int) -> datetime:
    """Start a failed run before its pause is over, as soon as it is due."""
    await database.execute("UPDATE forecast_run SET retry_at = now() WHERE id = %(id)s", {"id": run_id})
    started_at = await Runs(database).start(run_id)
    assert started_at is not None
    return started_at


async def test_waiting_for_the_first_table(
    database: Database, imports: Imports, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = await run(imports, "waited", trace)
    assert imported.run is not None
    early = await imports.wait_for_table(imported, 0)
    assert early is not None
    assert early.status == "pending"
    monkeypatch.setattr("app.importing.service._TAKEN_UP_S", 0.1)
    nobody = await imports.wait_for_table(imported, 60)
    assert nobody is not None
    assert nobody.status == "pending"
    async with aclosing(listen(database)) as signals:
        hearing = asyncio.create_task(anext(signals))
        await hearing  # it is told that it may have missed something
        for_somebody = await imports.wait_for_table(imported, 2)  # a worker that compiles
        assert for_somebody is not None
        assert for_somebody.status == "pending"
    started_at = await Runs(database).start(imported.run.id)
    assert started_at is not None
    waiting = asyncio.create_task(imports.wait_for_table(imported, 60))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await Runs(database).fail(imported.run.id, started_at, "the disk is full")  # it is tried again
    await asyncio.sleep(0.5)
    assert not waiting.done()
    again_at = await started_again(database, imported.run.id)
    await Runs(database).finish(imported.run.id, again_at, 1)
    done = await waiting
    assert done is not None
    assert (done.status, done.epoch) == ("succeeded", 1)
    again = await run(imports, "waited", trace)
    assert await imports.wait_for_table(again, 60) is None


async def test_the_snapshot_is_the_fold_of_the_log(database: Database, imports: Imports, trace: Path) -> None:
    imported = await run(imports, "snapshot", trace)
    cloud_id = await Clouds(database).find("snapshot")
    assert cloud_id is not None
    snapshot = await Snapshots(database).load(cloud_id)
    assert snapshot is not None
    assert snapshot.seq == imported.decider.cloud.seq


async def test_an_import_is_compared_with_a_log_that_is_read_in_short_pages(
    database: Database, imports: Imports, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail, pages = EventLog.tail, list[int]()

    async def short(log: EventLog, cloud_id: int, after_seq: int, limit: int) -> list[Recorded]:
        found = await tail(log, cloud_id, after_seq, limit, 100_000)
        pages.append(len(found))
        return found

    first = await run(imports, "pages", trace)
    monkeypatch.setattr(EventLog, "tail", short)
    again = await run(of(database, NOW_US + HOUR_US), "pages", trace)
    assert (again.there_count, again.written_count) == (first.written_count, 0)
    assert 1 < max(pages) < min(BATCH, first.written_count)


async def test_importing_twice_changes_nothing(database: Database, imports: Imports, trace: Path) -> None:
    await run(imports, "twice", trace)
    before = await log_of(database, "twice")
    again = await run(of(database, NOW_US + HOUR_US), "twice", trace)
    assert (again.there_count, again.written_count) == (len(before), 0)
    assert await log_of(database, "twice") == before


async def test_what_an_earlier_version_imported_is_there(database: Database, imports: Imports, trace: Path) -> None:
    """Its pasts ended without protection from callers. What it did not finish goes on."""
    await run(imports, "earlier", trace)
    before = await log_of(database, "earlier")
    again = await run(imports, "earlier", trace, policy=protected(POLICY))
    assert (again.there_count, again.written_count) == (len(before), 0)
    dying = of(database, NOW_US)
    kill_after(dying, 1)
    with pytest.raises(Killed):
        await run(dying, "cut-off", trace)
    await run(imports, "cut-off", trace, policy=protected(POLICY))
    *past, closing = await log_of(database, "cut-off")
    assert past == before[:-1]
    assert isinstance(closing.event, PolicyChanged)
    assert closing.event.policy == protected(POLICY)


async def test_the_same_past_with_other_options_is_told_as_such(
    database: Database, imports: Imports, trace: Path
) -> None:
    await run(imports, "optional", trace)
    before = await log_of(database, "optional")
    other = Policy(eviction_probability=0.2, gives_back=True)
    with pytest.raises(CloudNotImported, match=r"has this past already, imported with other options") as raised:
        await run(imports, "optional", trace, policy=other)
    said = str(raised.value)
    assert "(eviction_probability is 0.01 there and 0.2 here, gives_back is false there and true here)" in said
    assert "PATCH /v1/clouds/optional changes" in said
    with pytest.raises(CloudNotImported, match=r"does not begin with this past \(eviction_probability is 0\.01 there"):
        await run(imports, "optional", trace, policy=other, nodes=(Resources(5),))
    assert await log_of(database, "optional") == before


async def test_live_events_may_follow(database: Database, imports: Imports, trace: Path) -> None:
    await run(imports, "followed", trace)
    before = await log_of(database, "followed")
    found = await Clouds(database).find("followed")
    assert found is not None
    live = Recorded(len(before) + 1, NodeAdded(at_us=NOW_US + 1, node="new", capacity=Resources(1)))
    await EventLog(database).append(found, [live])
    again = await run(of(database, NOW_US + HOUR_US), "followed", trace)
    assert again.written_count == 0
    assert await log_of(database, "followed") == [*before, live]


@pytest.mark.parametrize("appends", [0, 1, 2])
async def test_an_import_that_was_killed_goes_on(database: Database, trace: Path, appends: int) -> None:
    await run(of(database, NOW_US), f"undisturbed-{appends}", trace)
    name, dying = f"killed-{appends}", of(database, NOW_US)
    kill_after(dying, appends)
    with pytest.raises(Killed):
        await run(dying, name, trace)
    clouds = Clouds(database)
    assert await clouds.find(name) is None
    assert name not in await clouds.list()
    assert name not in [observation.cloud for observation in await Observations(database).all()]
    with pytest.raises(CloudExists):
        await clouds.create(name, Recorded(1, CloudCreated(at_us=0, policy=Policy())))
    resumed = await run(of(database, NOW_US + HOUR_US), name, trace)
    assert resumed.there_count == (appends + 1) * BATCH
    assert await log_of(database, name) == await log_of(database, f"undisturbed-{appends}")
    assert await clouds.find(name) is not None


async def test_killed_before_it_was_seen(database: Database, imports: Imports, trace: Path) -> None:
    async def dies(_: int) -> None:
        raise Killed

    dying = of(database, NOW_US)
    dying._clouds.finish = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await run(dying, "unseen", trace)
    resumed = await run(imports, "unseen", trace)
    assert resumed.written_count == 0
    assert await Clouds(database).find("unseen") is not None


async def test_an_unfinished_import_goes_on_with_the_same_past_only(
    database: Database, imports: Imports, trace: Path
) -> None:
    dying = of(database, NOW_US)
    kill_after(dying, 1)
    with pytest.raises(Killed):
        await run(dying, "other", trace)
    before = await log_of(database, "other")
    for how in ({"nodes": (Resources(5),)}, {"policy": Policy(eviction_probability=0.2)}, {"recorded": True}):
        with pytest.raises(OtherPast, match=r"import\.other_past: .*--restart"):
            await run(imports, "other", trace, **({"policy": Policy(clock=Clock.EXTERNAL)} | how))
    assert await log_of(database, "other") == before
    assert await imports.abandon("other")
    assert await ImportedClouds(database).find("other") is None
    assert not await imports.abandon("other")
    assert (await run(imports, "other", trace, nodes=(Resources(5),))).there_count == 0
    assert not await imports.abandon("other")


async def test_abandoning_leaves_no_event(database: Database, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.importing.store.imports._REMOVED_AT_ONCE", 1_500)
    dying = of(database, NOW_US)
    kill_after(dying, 2)
    with pytest.raises(Killed):
        await run(dying, "left", trace)
    found = await ImportedClouds(database).find("left")
    assert found is not None
    assert await EventLog(database).last_seq(found[0]) == 3 * BATCH
    assert await of(database, NOW_US).abandon("left")
    assert await EventLog(database).last_seq(found[0]) == 0


async def test_a_cloud_that_was_not_imported_gets_no_past(database: Database, imports: Imports, trace: Path) -> None:
    cloud_id = await Clouds(database).create("made", Recorded(1, CloudCreated(at_us=NOW_US, policy=Policy())))
    with pytest.raises(CloudNotImported, match="cloud_exists: cloud 'made' exists and was not made") as told:
        await run(imports, "made", trace)
    assert str(told.value).endswith("by this import; give another name"), "nobody asked for no guarantee"
    assert await EventLog(database).last_seq(cloud_id) == 1
    assert not await imports.abandon("made")


async def test_one_process_imports_a_cloud_at_a_time(database: Database, imports: Imports, trace: Path) -> None:
    dying = of(database, NOW_US)
    kill_after(dying, 0)
    with pytest.raises(Killed):
        await run(dying, "busy", trace)
    found = await ImportedClouds(database).find("busy")
    assert found is not None
    async with Locks(database).held(import_lock(found[0])) as held:
        assert held
        with pytest.raises(ImportRunning, match=r"import\.running"):
            await run(imports, "busy", trace)
        with pytest.raises(ImportRunning):
            await imports.abandon("busy")
    assert (await run(imports, "busy", trace)).there_count == BATCH


async def test_two_at_once_never_spoil_the_log(database: Database, trace: Path) -> None:
    await run(of(database, NOW_US), "alone", trace)
    results = await asyncio.gather(
        *(run(of(database, NOW_US), "raced", trace) for _ in range(3)), return_exceptions=True
    )
    assert [result for result in results if not isinstance(result, Imported | ImportRefused)] == []
    assert await log_of(database, "raced") == await log_of(database, "alone")


async def test_when_the_past_was(database: Database, trace: Path) -> None:
    early = of(database, 4 * DAY_US)
    with pytest.raises(InputError, match="longer than the time since 1970"):
        await run(early, "early", trace)
    with pytest.raises(InputError, match="after now"):
        await run(early, "early", trace, recorded=True)
    external = Policy(clock=Clock.EXTERNAL)
    imported = await run(early, "early", trace, recorded=True, policy=external)
    assert imported.decider.end_us > 4 * DAY_US
    assert (await log_of(database, "early"))[0].event.at_us == imported.decider.begin_us
    assert await Clouds(database).find("early") is not None


async def test_a_rehearsal_is_what_would_be_written(database: Database, imports: Imports, trace: Path) -> None:
    with wanted("rehearsed", trace) as asked:
        rehearsed = rehearse(asked, NOW_US)
    assert await ImportedClouds(database).find("rehearsed") is None
    imported = await run(imports, "rehearsed", trace)
    assert rehearsed.decider.cloud.digest() == imported.decider.cloud.digest()
    assert rehearsed.written_count == imported.written_count


def test_every_refusal_has_a_code_of_its_own() -> None:
    refusals = ImportRefused.__subclasses__()
    assert len({refusal.code for refusal in refusals}) == len(refusals) == 3
