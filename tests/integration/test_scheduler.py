"""Deciding durably, against a real server: what is answered is in the log, whatever goes wrong between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from time import monotonic

import pytest

from app.admission.outcomes import Started, Stopped
from app.domain import errors
from app.domain.events import InstanceRejected, InstanceStarted
from app.domain.requests import ExtendRequest, StartRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, Guarantee, Market, NodeStatus, Policy, Resources, RunCause
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.jobs import Schedule
from app.forecasts.places import Places
from app.forecasts.recompute import Forecasts
from app.forecasts.reliability import Reliabilities
from app.forecasts.rules import Run, RunStatus
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.forecasts.tables import TableCache
from app.notices.jobs import NoticeWriter
from app.notices.newest import NewestTables
from app.observing.metrics import CloudCollector
from app.observing.service import CloudWatch, SeenClouds
from app.observing.store import Observations
from app.observing.truths import KeptTruths
from app.platform.clock import ServerClock
from app.platform.database.database import Database
from app.platform.database.lockids import DELIVERY_LOCK
from app.platform.database.locks import Locks
from app.platform.database.signals import listen
from app.scheduling import sequencer
from app.scheduling.appending import Logs, States
from app.scheduling.jobs import Snapshotting
from app.scheduling.log_heads import LogHeads
from app.scheduling.scheduler import Scheduler
from app.scheduling.sequencer import QueueLimits, SequencerParts
from app.scheduling.states import load_state
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots

pytestmark = pytest.mark.anyio
names = (f"cloud-{number}" for number in count())
UNGUARDED = Policy(guarantee=Guarantee.NONE)
EXTERNAL = Policy(clock=Clock.EXTERNAL, sample_count=200)


class Process:
    """The parts of one API process; several of them share a database."""

    def __init__(self, database: Database, now_us: Callable[[], int] = lambda: 5, wait_s: float = 20) -> None:
        self.database = database
        self.log = EventLog(database)
        self.snapshots = Snapshots(database)
        self.tables = TableCache(Tables(database), Runs(database), wait_s)
        self.logs = Logs(self.log, self.snapshots, LogHeads(database, self.log))
        parts = SequencerParts(self.logs, self.tables, now_us, QueueLimits(1000, 100))
        self.scheduler = Scheduler(Clouds(database), parts)

    async def table(self, name: str) -> QuantileTable | None:
        """The newest published table."""
        return await self.tables.load(await self.scheduler.cloud_id(name))

    async def folded(self, name: str) -> Cloud:
        """The log, folded from its first event."""
        cloud_id = await self.scheduler.cloud_id(name)
        cloud = Cloud()
        cloud.apply_recorded(await self.log.tail(cloud_id, 0, 100_000))
        return cloud


@asynccontextmanager
async def running(process: Process) -> AsyncIterator[Process]:
    following = asyncio.create_task(process.tables.follow(listen(process.database)))
    try:
        yield process
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await process.scheduler.close()


@pytest.fixture
async def process(database: Database) -> AsyncIterator[Process]:
    async with running(Process(database)) as process:
        yield process


@pytest.fixture
async def narrow(database_url: str) -> AsyncIterator[Database]:
    """A pool of one connection: whoever holds it and waits for another one waits in vain."""
    database = Database(database_url, timeout_s=2, pool_size=1)
    yield database
    await database.close()


async def make_cloud(process: Process, policy: Policy = UNGUARDED, nodes: int = 1) -> str:
    name = next(names)
    await process.scheduler.create_cloud(name, policy, None)
    for number in range(nodes):
        await process.scheduler.add_node(name, f"node-{number}", Resources(4), None)
    await process.scheduler.add_flavor(name, "c1", Resources(1), None)
    await process.scheduler.add_flavor(name, "c4", Resources(4), None)
    return name


def spot(instance_id: str, **more: object) -> StartRequest:
    return replace(StartRequest(instance_id, Market.SPOT, "c1", 50 * SECOND_US), **more)


def on_demand(instance_id: str, flavor: str = "c1", **more: object) -> StartRequest:
    return replace(StartRequest(instance_id, Market.ON_DEMAND, flavor), **more)


async def test_answers_are_in_the_log_and_the_fold_is_the_state(process: Process):
    name = await make_cloud(process)
    started = await process.scheduler.start(name, spot("a"))
    await process.scheduler.start(name, on_demand("b", "c4"))
    rejected = await process.scheduler.start(name, spot("c"))
    stopped = await process.scheduler.stop(name, StopRequest("b"))
    assert isinstance(started.decision, InstanceStarted)
    assert isinstance(rejected.decision, InstanceRejected)
    assert stopped.changed
    assert (await process.folded(name)).digest() == (await process.scheduler.state(name)).digest()


async def test_a_repeat_is_answered_from_the_log_by_any_process(process: Process, database: Database):
    name = await make_cloud(process)
    first = await process.scheduler.start(name, spot("a"))
    await process.scheduler.stop(name, StopRequest("a"))
    async with running(Process(database)) as other:
        again = await other.scheduler.start(name, spot("a"))
        with pytest.raises(errors.InstanceConflict):
            await other.scheduler.start(name, spot("a", lifetime_us=1))
        assert not (await other.scheduler.stop(name, StopRequest("a"))).changed
        with pytest.raises(errors.InstanceNotFound):
            await other.scheduler.stop(name, StopRequest("never"))
    assert (again.decision, again.seq, again.repeated) == (first.decision, first.seq, True)


async def test_what_arrives_together_is_decided_in_order_and_shares_transactions(process: Process):
    name = await make_cloud(process, nodes=30)
    answers = await asyncio.gather(*(process.scheduler.start(name, on_demand(f"i-{n}")) for n in range(100)))
    assert [answer.seq for answer in answers] == list(range(answers[0].seq, answers[0].seq + 100))


async def test_steps_with_very_many_events_take_several_transactions_and_keep_their_order(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sequencer, "MOST_EVENTS", 3)
    name = await make_cloud(process)
    starts = [on_demand("a"), on_demand("b")]
    steps = [*starts, StopRequest("a"), StopRequest("b"), *starts, StopRequest("a"), *starts]
    outcomes = await process.scheduler.batch(name, steps)
    assert [type(one) for one in outcomes] == [Started] * 2 + [Stopped] * 2 + [Started] * 2 + [Stopped] + [Started] * 2
    assert [one.changed for one in outcomes if isinstance(one, Stopped)] == [True, True, False]
    assert [one.repeated for one in outcomes if isinstance(one, Started)] == [False] * 2 + [True] * 4


async def test_a_long_batch_lets_others_come_in_between_and_keeps_its_order(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sequencer, "MOST_DECIDING_S", 0.0)
    name = await make_cloud(process, nodes=30)
    first = await process.scheduler.start(name, spot("s"))
    long = asyncio.create_task(
        process.scheduler.batch(name, [ExtendRequest("s", 1_000_000 * (n + 100)) for n in range(1000)])
    )
    await asyncio.sleep(0)
    others = await asyncio.gather(*(process.scheduler.start(name, on_demand(f"o-{n}")) for n in range(20)))
    assert not long.done(), "they came later and were answered before"
    seqs = [one.seq for one in await long]
    assert seqs == sorted(seqs)
    assert len({first.seq, *seqs, *(one.seq for one in others)}) == 1021
    assert [one.decision.lifetime_us for one in long.result()] == [1_000_000 * (n + 100) for n in range(1000)]
    assert (await process.folded(name)).digest() == (await process.scheduler.state(name)).digest()


async def test_two_processes_on_one_cloud_decide_nothing_twice(process: Process, database: Database):
    name = await make_cloud(process, nodes=10)
    async with running(Process(database)) as other:
        both = [process.scheduler, other.scheduler]
        requests = [(both[n % 2], spot(f"i-{n // 2}")) for n in range(120)]
        answers = await asyncio.gather(*(scheduler.start(name, request) for scheduler, request in requests))
        digests = {(await scheduler.state(name)).digest() for scheduler in both}
    for first, second in zip(answers[::2], answers[1::2], strict=True):
        assert (first.decision, first.seq) == (second.decision, second.seq)
    folded = await process.folded(name)
    assert digests == {folded.digest()}
    assert folded.counts.spot_requested == 60
    assert folded.counts.spot_admitted == 40


async def lost_batches(process: Process, name: str) -> list[str]:
    """The reasons for which batches of the cloud are decided again from now on."""
    lost = list[str]()
    (await process.scheduler._sequencer(name))._appender._lost = lost.append
    return lost


async def test_a_process_reads_what_others_write_before_it_is_asked(process: Process, database: Database):
    name = await make_cloud(process, nodes=10)
    cloud_id = await process.scheduler.cloud_id(name)
    async with process.logs.heads.kept_up(), running(Process(database)) as other, other.logs.heads.kept_up():
        await other.scheduler.start(name, on_demand("first"))
        lost = await lost_batches(process, name)
        appender = (await process.scheduler._sequencer(name))._appender
        for number in range(10):
            written = await other.scheduler.start(name, on_demand(f"other-{number}"))
            async with asyncio.timeout(5):
                while appender.state.mark.seq < written.seq:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.001)
            own = await process.scheduler.start(name, on_demand(f"own-{number}"))
            assert own.seq == written.seq + 1
            await other.scheduler.state(name)
    assert not lost
    assert await process.log.last_seq(cloud_id) == own.seq


async def test_a_process_that_only_looked_does_not_follow_a_log(process: Process, database: Database):
    name = await make_cloud(process)
    async with running(Process(database)) as other, other.logs.heads.kept_up(), process.logs.heads.kept_up():
        seen = (await other.scheduler.state(name)).seq
        await process.scheduler.start(name, on_demand("a"))
        appender = (await other.scheduler._sequencer(name))._appender
        async with asyncio.timeout(5):
            while appender._in_sync:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert appender.state.mark.seq == seen


async def test_a_second_conflict_in_a_row_makes_a_process_take_turns(process: Process, database: Database):
    name = await make_cloud(process, nodes=10)
    async with running(Process(database)) as other:
        await other.scheduler.start(name, on_demand("a"))
        lost, sequencer_ = await lost_batches(process, name), await process.scheduler._sequencer(name)
        await process.scheduler.start(name, on_demand("b"))
        assert (lost, sequencer_._appender._take_turns_until) == (["conflict"], 0.0)
        catch_up = sequencer_._appender._catch_up
        faster = iter("cd")

        async def caught_up() -> None:
            await catch_up()
            for one in faster:
                await other.scheduler.start(name, on_demand(one))
                break

        sequencer_._appender._catch_up = caught_up
        await process.scheduler.start(name, on_demand("e"))
        assert lost == ["conflict"] * 3
        assert sequencer_._appender._take_turns_until > 0.0
    assert {"a", "b", "c", "d", "e"} <= {*(await process.folded(name)).running}


async def test_a_turn_at_the_log_takes_one_connection(process: Process, narrow: Database):
    name = await make_cloud(process, replace(UNGUARDED, clock=Clock.EXTERNAL), nodes=2)
    async with running(Process(narrow)) as ours:
        await ours.scheduler.start(name, on_demand("a", at_us=10))
        (await ours.scheduler._sequencer(name))._appender._take_turns_until = monotonic() + 60
        await process.scheduler.start(name, on_demand("b", at_us=11))
        assert isinstance(await ours.scheduler.start(name, on_demand("c", at_us=12)), Started)
        assert (await ours.scheduler.start(name, on_demand("b", at_us=11))).repeated
        assert (await ours.scheduler.stop(name, StopRequest("a", 13))).changed
        assert not (await ours.scheduler.stop(name, StopRequest("a", 13))).changed


async def test_a_notice_takes_one_connection(process: Process, narrow: Database):
    name = await make_cloud(process, replace(UNGUARDED, clock=Clock.EXTERNAL, grace_us=SECOND_US))
    await process.scheduler.start(name, spot("a", at_us=10))
    await process.scheduler.start(name, on_demand("b", "c4", at_us=11))
    await process.scheduler.add_node(name, "later", Resources(4), 3 * SECOND_US)
    log = EventLog(narrow)
    states = States(Logs(log, Snapshots(narrow), LogHeads(narrow, log)))
    notices = NoticeWriter(Clouds(narrow), states, NewestTables(Tables(narrow)), lambda: 5)
    assert await notices.report_overdue() == 1
    assert await notices.report_overdue() == 0
    assert "a" in (await process.scheduler.state(name)).handovers


async def test_locks_take_no_connection_of_the_pool(process: Process, narrow: Database):
    name = await make_cloud(process, EXTERNAL)
    cloud_id = await process.scheduler.cloud_id(name)
    async with Locks(narrow).held(DELIVERY_LOCK) as hold, worker(Process(narrow), lambda: 0):
        assert hold is not None
        await Runs(process.database).request(cloud_id, RunCause.REQUESTED, DAY_US)
        (run,) = await finished(process, cloud_id)
        await hold.check()
    assert run.status == RunStatus.SUCCEEDED


async def test_a_lost_database_leaves_no_trace_and_is_got_over(process: Process, database: Database):
    name = await make_cloud(process)
    cloud_id = await process.scheduler.cloud_id(name)
    before = await process.log.last_seq(cloud_id)
    await database.execute(f"ALTER TABLE event ADD CONSTRAINT closed CHECK (cloud_id <> {cloud_id}) NOT VALID")
    try:
        with pytest.raises(Exception, match="closed"):
            await process.scheduler.start(name, spot("a"))
    finally:
        await database.execute("ALTER TABLE event DROP CONSTRAINT closed")
    assert await process.log.last_seq(cloud_id) == before
    assert "a" not in (await process.scheduler.state(name)).running
    assert (await process.scheduler.start(name, spot("a"))).seq == before + 1


async def test_nodes_drain_open_and_go(process: Process):
    name, scheduler = await make_cloud(process, nodes=2), process.scheduler
    assert not (await scheduler.add_node(name, "node-0", Resources(4), None)).is_changed
    with pytest.raises(errors.NodeExists):
        await scheduler.add_node(name, "node-0", Resources(5), None)
    drained = await scheduler.drain_node(name, "node-0", None)
    assert (drained.node.status, drained.is_changed) == (NodeStatus.DRAINED, True)
    assert (await scheduler.start(name, spot("a"))).decision.node == "node-1"
    opened = await scheduler.open_node(name, "node-0", None)
    assert (opened.node.status, opened.free) == (NodeStatus.OPEN, Resources(4))
    assert (await scheduler.start(name, on_demand("b"))).decision.node == "node-0"
    with pytest.raises(errors.NodeNotEmpty):
        await scheduler.remove_node(name, "node-0", None)
    assert await scheduler.remove_node(name, "node-1", None) == {"a": None}
    with pytest.raises(errors.NodeNotFound):
        await scheduler.drain_node(name, "node-1", None)
    added = await scheduler.add_node(name, "node-1", Resources(8), None)
    assert (added.node.capacity, added.free, added.is_changed) == (Resources(8), Resources(8), True)
    cloud = await scheduler.state(name)
    assert cloud.nodes["node-1"].status is NodeStatus.OPEN
    assert (await process.folded(name)).digest() == cloud.digest()


async def test_policies_change_but_clocks_do_not(process: Process):
    name = await make_cloud(process)
    cloud = await process.scheduler.change_policy(name, lambda old: replace(old, eviction_probability=0.5), None)
    assert cloud.policy.eviction_probability == 0.5
    with pytest.raises(errors.PolicyInvalid):
        await process.scheduler.change_policy(name, lambda old: replace(old, clock=Clock.EXTERNAL), None)
    with pytest.raises(errors.PolicyInvalid):
        await process.scheduler.change_policy(name, lambda old: replace(old, table_max_age_us=1), None)
    with pytest.raises(errors.CloudExists):
        await process.scheduler.create_cloud(name, UNGUARDED, None)
    with pytest.raises(errors.CloudNotFound):
        await process.scheduler.state("nowhere")


async def test_a_snapshot_and_the_tail_after_it_give_the_state_of_the_whole_log(process: Process, database: Database):
    name = await make_cloud(process)
    cloud_id = await process.scheduler.cloud_id(name)
    await process.scheduler.start(name, spot("a"))
    states = States(process.logs)
    snapshotting = Snapshotting(Clouds(database), states, process.snapshots, every_events=1)
    assert await snapshotting.take_due() >= 1
    await process.scheduler.start(name, on_demand("b", "c4"))
    loaded = await load_state(cloud_id, process.log, process.snapshots)
    assert loaded.cloud.digest() == (await process.folded(name)).digest()
    assert await process.snapshots.newest_seq(cloud_id) < loaded.mark.seq


def schedule_of(process: Process, now_us: Callable[[], int]) -> Schedule:
    database = process.database
    states = States(process.logs)
    return Schedule(Clouds(database), states, Tables(database), Runs(database), now_us)


@asynccontextmanager
async def worker(process: Process, now_us: Callable[[], int]) -> AsyncIterator[Schedule]:
    """A worker's services, doing at once whatever is asked for."""
    database = process.database
    states, runs, tables = States(process.logs), Runs(database), Tables(database)
    with ThreadPoolExecutor(2) as executor:
        forecasts = Forecasts(process.log, states, tables, runs, Locks(database), Places(executor, 2), now_us)

        async def work() -> None:
            while True:
                await forecasts.run_pending()
                await asyncio.sleep(0.01)

        task = asyncio.create_task(work())
        yield schedule_of(process, now_us)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def busy_day(until_us: int) -> list[StartRequest | StopRequest]:
    """An hour on, an hour off: on-demand work that leaves two of four cores free."""
    steps: list[StartRequest | StopRequest] = []
    for number, at_us in enumerate(range(0, until_us, 2 * HOUR_US)):
        steps.append(on_demand(f"d-{number}", "c1", at_us=at_us))
        steps.append(StopRequest(f"d-{number}", at_us + HOUR_US))
    return steps


async def test_on_an_external_clock_a_spot_start_waits_for_the_table_of_its_epoch(process: Process):
    name = await make_cloud(process, EXTERNAL)
    late = spot("late", at_us=DAY_US + 7 * HOUR_US)
    async with worker(process, lambda: 0):
        steps = [*busy_day(DAY_US), spot("first", at_us=DAY_US), on_demand("o", at_us=DAY_US + HOUR_US), late]
        steps.append(StopRequest("o", at_us=DAY_US + 8 * HOUR_US))
        past = await process.scheduler.batch(name, steps)
        assert [type(outcome) for outcome in past[-4:]] == [errors.EpochsCrossed] * 4, "what has written waits for none"
        assert (await process.scheduler.state(name)).at_us == DAY_US - HOUR_US
        outcomes = await process.scheduler.batch(name, steps[-4:])
        assert [type(outcome) for outcome in outcomes[-2:]] == [errors.EpochsCrossed] * 2, "one table for each batch"
        assert (await process.scheduler.state(name)).at_us == DAY_US + HOUR_US
        again = await process.scheduler.batch(name, steps[-4:])
        assert again[0] == replace(outcomes[0], repeated=True)
    first, last = outcomes[0].decision, again[-2].decision
    assert again[-1] == Stopped("o", changed=True)
    assert isinstance(first, InstanceStarted)
    assert isinstance(last, InstanceStarted)
    assert (first.basis.epoch, last.basis.epoch) == (1, 2)
    table = await process.table(name)
    assert table.epoch_us == DAY_US + 6 * HOUR_US


async def test_without_a_worker_the_wait_is_bounded_and_nothing_is_promised(database: Database):
    async with running(Process(database, wait_s=0.1)) as process:
        name = await make_cloud(process, EXTERNAL)
        answer = await process.scheduler.start(name, spot("a", at_us=DAY_US))
        assert answer.decision.reason == "no_history"


async def look(process: Process) -> SeenClouds:
    clock = ServerClock(process.database.time_us)
    await clock.look()
    truths = KeptTruths(Reliabilities(Clouds(process.database), EventLog(process.database)), process.scheduler)
    return await CloudWatch(process.scheduler, Observations(process.database), truths, clock).clouds()


async def test_who_reads_does_not_wait_for_a_table_that_a_start_waits_for(process: Process):
    name = await make_cloud(process, EXTERNAL)
    start = asyncio.create_task(process.scheduler.start(name, spot("a", at_us=DAY_US)))
    await asyncio.sleep(0.5)
    async with asyncio.timeout(3):
        cloud = await process.scheduler.state(name)
        seen = await look(process)
    assert not start.done()
    assert cloud.at_us == 0
    assert name in {facts.name for facts in seen.clouds}
    start.cancel()


async def test_nobody_waits_for_a_table_whose_caller_has_gone(process: Process):
    name = await make_cloud(process, EXTERNAL)
    gone = asyncio.create_task(process.scheduler.batch(name, [spot("a", at_us=DAY_US), on_demand("b", at_us=DAY_US)]))
    await asyncio.sleep(0.5)
    waiting = asyncio.create_task(process.scheduler.start(name, spot("c", at_us=DAY_US)))
    later = asyncio.create_task(process.scheduler.start(name, on_demand("d", at_us=HOUR_US)))
    await asyncio.sleep(0.1)
    gone.cancel()
    waiting.cancel()
    async with asyncio.timeout(3):
        assert (await later).decision.at_us == HOUR_US
    assert (await process.scheduler.state(name)).running.keys() == {"d"}


async def test_a_cloud_that_does_not_answer_is_said_so_and_the_others_are_told(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.observing.service.ANSWER_S", 0.5)
    stalled, broken, good = [await make_cloud(process) for _ in range(3)]
    broken_id = await process.scheduler.cloud_id(broken)
    await process.database.execute(f"UPDATE event SET version = 99 WHERE cloud_id = {broken_id} AND seq = 2")
    try:
        async with running(Process(process.database)) as other:
            sequencer = await other.scheduler._sequencer(stalled)
            async with sequencer._appender._alone.taken(), asyncio.timeout(20):
                seen = await look(other)
    finally:
        await process.database.execute(f"UPDATE event SET version = 1 WHERE cloud_id = {broken_id} AND seq = 2")
    assert {stalled, broken} <= set(seen.silent)
    assert good in {facts.name for facts in seen.clouds}
    families = {metric.name: metric for metric in CloudCollector(seen.clouds, seen.silent).collect()}
    told = {sample.labels["cloud"]: sample.value for sample in families["tenure_cloud_answering"].samples}
    assert (told[stalled], told[broken], told[good]) == (0, 0, 1)


async def test_the_schedule_asks_once_for_what_is_due_and_a_run_publishes_it(process: Process):
    now = [DAY_US]
    async with running(Process(process.database, lambda: now[0])) as api:
        name = await make_cloud(api, Policy(sample_count=100))
        cloud_id = await api.scheduler.cloud_id(name)
        now[0] += 7 * HOUR_US
        async with worker(api, lambda: now[0]) as schedule:
            await schedule.request_due()
            await schedule.request_due()
            runs = await finished(api, cloud_id)
            await schedule.request_due()
            assert await finished(api, cloud_id) == runs, "what is there is not asked for again"
        assert {(run.status, run.epoch) for run in runs} == {(RunStatus.SUCCEEDED, 1)}
        assert len(await Tables(api.database).page(cloud_id, 10)) == 1
        await api.tables.load(cloud_id)
        assert (await api.table(name)).epoch_us == DAY_US + 6 * HOUR_US


async def test_what_is_under_way_is_not_asked_for_again(process: Process):
    now = [DAY_US]
    async with running(Process(process.database, lambda: now[0])) as api:
        cloud_id = await api.scheduler.cloud_id(await make_cloud(api, Policy()))
        now[0] += 7 * HOUR_US
        runs = Runs(process.database)
        await schedule_of(api, lambda: now[0]).request_due()
        (run,) = await runs.page(cloud_id, 10)
        started_at = await runs.start(run.id)
        assert started_at is not None
        await schedule_of(api, lambda: now[0]).request_due()
        await runs.fail(run.id, started_at, "it broke")
        schedule = schedule_of(api, lambda: now[0])
        await schedule.request_due()
        assert len(await runs.page(cloud_id, 10)) == 1
        await process.database.execute("UPDATE forecast_run SET retry_at = NULL WHERE id = %(id)s", {"id": run.id})
        now[0] += HOUR_US - 1
        await schedule.request_due()
        assert len(await runs.page(cloud_id, 10)) == 1, "what was given up rests"
        now[0] += 1
        await schedule.request_due()
        assert len(await runs.page(cloud_id, 10)) == 2, "the same worker gives it another chance"
        await process.database.execute("UPDATE forecast_run SET status = 'failed' WHERE status = 'pending'")
        await schedule_of(api, lambda: now[0]).request_due()
        assert len(await runs.page(cloud_id, 10)) == 3, "so does a worker that starts"


async def test_a_table_that_takes_longer_than_its_interval_is_not_followed_by_the_next_at_once(process: Process):
    now = [DAY_US]
    async with running(Process(process.database, lambda: now[0])) as api:
        policy = Policy(recompute_every_us=SECOND_US, table_max_age_us=DAY_US)
        cloud_id = await api.scheduler.cloud_id(await make_cloud(api, policy))
        runs, schedule = Runs(process.database), schedule_of(api, lambda: now[0])
        now[0] += 2 * SECOND_US
        await schedule.request_due()
        (run,) = await runs.page(cloud_id, 10)
        started_at = await runs.start(run.id)
        assert started_at is not None
        now[0] += 2 * SECOND_US
        await schedule.request_due()
        assert len(await runs.page(cloud_id, 10)) == 1, "one is under way"
        table = QuantileTable(1, now[0], 1, {}).to_bytes()
        await Tables(process.database).publish(cloud_id, epoch=1, epoch_us=now[0], seq=1, data=table, wall_s=100.0)
        await runs.finish(run.id, started_at, 1)
        await process.database.execute(
            f"UPDATE quantile_table SET computed_at = to_timestamp({now[0] // SECOND_US}) WHERE cloud_id = {cloud_id}"
        )
        for after_s, count in ((50, 1), (51, 2)):
            now[0] += after_s * SECOND_US
            await schedule.request_due()
            assert len(await runs.page(cloud_id, 10)) == count


async def test_one_clouds_trouble_leaves_the_others_their_tables(process: Process):
    now = [DAY_US]
    async with running(Process(process.database, lambda: now[0])) as api:
        broken, *others = [await api.scheduler.cloud_id(await make_cloud(api, Policy())) for _ in range(3)]
        await api.database.execute(f"DELETE FROM event WHERE cloud_id = {broken} AND seq = 2")
        now[0] += 7 * HOUR_US
        try:
            with pytest.raises(ExceptionGroup):
                await schedule_of(api, lambda: now[0]).request_due()
        finally:
            await api.database.execute(f"DELETE FROM event WHERE cloud_id = {broken} AND seq > 1")
        runs = Runs(api.database)
        assert [len(await runs.page(cloud_id, 10)) for cloud_id in (broken, *others)] == [0, 1, 1]


async def test_a_change_of_capacity_is_a_reason_for_a_new_table(process: Process):
    now = [DAY_US]
    async with running(Process(process.database, lambda: now[0])) as api:
        name = await make_cloud(api, Policy(sample_count=100))
        cloud_id = await api.scheduler.cloud_id(name)
        now[0] += 7 * HOUR_US
        async with worker(api, lambda: now[0]) as schedule:
            await schedule.request_changed()
            assert await finished(api, cloud_id) == [], "the first table is the schedule's"
            await schedule.request_due()
            await finished(api, cloud_id)
            await schedule.request_changed()
            await api.scheduler.add_node(name, "more", Resources(4), None)
            await schedule.request_changed()
            assert len(await finished(api, cloud_id)) == 1, "too soon after the last one"
            now[0] += HOUR_US
            await schedule.request_changed()
            await schedule.request_changed()
            newest = (await finished(api, cloud_id))[0]
            assert (newest.cause, newest.status, newest.epoch) == ("capacity_changed", RunStatus.SUCCEEDED, 2)
            await schedule.request_changed()
            assert len(await finished(api, cloud_id)) == 2, "the new table knows of it"


async def finished(process: Process, cloud_id: int) -> list[Run]:
    """All of the cloud's runs, when none is under way any more."""
    for _ in range(1000):
        runs = await Runs(process.database).page(cloud_id, 10)
        if all(run.status in (RunStatus.SUCCEEDED, RunStatus.FAILED) for run in runs):
            return runs
        await asyncio.sleep(0.02)
    raise AssertionError(f"still under way: {runs}")


async def test_a_run_that_fails_says_why_and_leaves_the_old_table(process: Process):
    name = await make_cloud(process, EXTERNAL)
    cloud_id = await process.scheduler.cloud_id(name)
    runs = Runs(process.database)
    await process.database.execute(f"DELETE FROM event WHERE cloud_id = {cloud_id} AND seq = 2")
    async with worker(process, lambda: 0):
        await runs.request(cloud_id, RunCause.REQUESTED, DAY_US)
        (failed,) = await finished(process, cloud_id)
    assert failed.status == RunStatus.FAILED
    assert failed.error
    assert failed.retry_at is not None
    assert await process.table(name) is None


async def test_a_full_queue_is_said_so(process: Process):
    name = await make_cloud(process)
    steps = [on_demand(f"i-{number}") for number in range(1001)]
    with pytest.raises(errors.Overloaded):
        await process.scheduler.batch(name, steps)
    assert isinstance(await process.scheduler.start(name, on_demand("i-0")), Started)
