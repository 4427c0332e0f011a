"""Answers are as new as what any process acknowledged before, also where nothing is written.

Each test has two processes over one database. The second one has read the cloud before the first one changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from threading import current_thread

import pytest
from test_scheduler import UNGUARDED, Process, make_cloud, on_demand, running, spot, worker

from app.admission.outcomes import Started, Stopped
from app.domain import errors
from app.domain.requests import StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Guarantee, NodeStatus, Policy, Resources, RunCause
from app.engine.cloud import instances
from app.forecasts.rules import Run
from app.forecasts.store.runs import Runs
from app.platform.database.database import Database
from app.scheduling import slots
from app.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.anyio


@dataclass
class Pair:
    """One cloud, and the schedulers of two processes that both know it."""

    cloud: str
    first: Scheduler
    second: Scheduler
    processes: tuple[Process, Process]

    async def both_know(self) -> None:
        """Let each process hold the state as it is now, so that it is behind after the next change."""
        await self.first.state(self.cloud)
        await self.second.state(self.cloud)


@pytest.fixture
async def pair(database: Database) -> AsyncIterator[Pair]:
    async with running(Process(database)) as first, running(Process(database)) as second:
        cloud = await make_cloud(first, replace(UNGUARDED, grace_us=3600 * SECOND_US), nodes=2)
        pair = Pair(cloud, first.scheduler, second.scheduler, (first, second))
        await pair.both_know()
        yield pair


async def test_a_stop_ends_what_another_process_started(pair: Pair):
    await pair.first.start(pair.cloud, spot("a"))
    assert (await pair.second.stop(pair.cloud, StopRequest("a"))).changed
    assert "a" not in (await pair.first.state(pair.cloud)).running
    assert not (await pair.first.stop(pair.cloud, StopRequest("a"))).changed


async def test_a_stop_of_an_unknown_instance_is_refused_as_of_now(pair: Pair):
    with pytest.raises(errors.InstanceNotFound):
        await pair.second.stop(pair.cloud, StopRequest("a"))
    await pair.first.start(pair.cloud, spot("a"))
    assert (await pair.second.stop(pair.cloud, StopRequest("a"))).changed


async def test_a_confirmation_finds_the_eviction_of_another_process(pair: Pair):
    await pair.first.start(pair.cloud, spot("a"))
    await pair.both_know()
    await pair.first.drill(pair.cloud, "a", None)
    assert await pair.second.confirm(pair.cloud, "a", None)
    assert not (await pair.first.state(pair.cloud)).handovers


async def test_a_start_finds_the_flavor_that_another_process_added(pair: Pair):
    await pair.first.add_flavor(pair.cloud, "new", Resources(1), None)
    answer = await pair.second.start(pair.cloud, on_demand("a", "new"))
    assert answer.decision.node == "node-0"


async def test_a_drill_finds_the_instance_that_another_process_started(pair: Pair):
    with pytest.raises(errors.DrillImpossible):
        await pair.second.drill(pair.cloud, None, None)
    await pair.first.start(pair.cloud, spot("a"))
    assert (await pair.second.drill(pair.cloud, None, None)).instance_id == "a"


async def test_a_node_goes_that_another_process_added_or_emptied(pair: Pair):
    await pair.first.add_node(pair.cloud, "new", Resources(4), None)
    assert await pair.second.remove_node(pair.cloud, "new", None) == {}
    await pair.first.start(pair.cloud, on_demand("a"))
    await pair.both_know()
    await pair.first.stop(pair.cloud, StopRequest("a"))
    assert await pair.second.remove_node(pair.cloud, "node-0", None) == {}


async def test_a_node_is_drained_and_opened_that_another_process_opened_and_drained(pair: Pair):
    await pair.first.drain_node(pair.cloud, "node-0", None)
    await pair.second.open_node(pair.cloud, "node-0", None)
    assert (await pair.first.state(pair.cloud)).nodes["node-0"].status is NodeStatus.OPEN
    await pair.second.drain_node(pair.cloud, "node-0", None)
    await pair.both_know()
    await pair.first.open_node(pair.cloud, "node-0", None)
    await pair.second.drain_node(pair.cloud, "node-0", None)
    assert (await pair.first.state(pair.cloud)).nodes["node-0"].status is NodeStatus.DRAINED


async def test_a_policy_is_changed_back_that_another_process_changed(pair: Pair):
    await pair.first.change_policy(pair.cloud, lambda old: replace(old, eviction_probability=0.5), None)
    await pair.second.change_policy(
        pair.cloud, lambda old: replace(old, eviction_probability=UNGUARDED.eviction_probability), None
    )
    assert (await pair.first.state(pair.cloud)).policy.eviction_probability == UNGUARDED.eviction_probability


async def test_flavors_and_nodes_of_another_process_are_there_and_contradicted(pair: Pair):
    await pair.first.add_flavor(pair.cloud, "new", Resources(2), None)
    assert not await pair.second.add_flavor(pair.cloud, "new", Resources(2), None)
    await pair.first.add_flavor(pair.cloud, "newer", Resources(2), None)
    with pytest.raises(errors.FlavorExists):
        await pair.second.add_flavor(pair.cloud, "newer", Resources(1), None)
    await pair.first.remove_node(pair.cloud, "node-1", None)
    assert (await pair.second.add_node(pair.cloud, "node-1", Resources(4), None)).is_changed


async def test_a_cloud_is_there_that_another_process_created(pair: Pair):
    with pytest.raises(errors.CloudNotFound):
        await pair.second.state("fresh")
    await pair.first.create_cloud("fresh", UNGUARDED, None)
    assert (await pair.second.state("fresh")).seq == 1
    assert "fresh" in await pair.second.names()


async def test_a_repeated_start_has_the_answer_of_the_other_process(pair: Pair):
    first = await pair.first.start(pair.cloud, spot("a"))
    again = await pair.second.start(pair.cloud, spot("a"))
    assert (again.decision, again.seq, again.repeated) == (first.decision, first.seq, True)
    with pytest.raises(errors.InstanceConflict):
        await pair.second.start(pair.cloud, spot("a", lifetime_us=1))


async def test_a_batch_is_as_new_as_its_parts_whether_it_writes_or_not(pair: Pair):
    for name in ("a", "b"):
        await pair.first.start(pair.cloud, spot(name))
    silent = await pair.second.batch(pair.cloud, [StopRequest("never"), spot("a"), spot("b", flavor="none")])
    assert [type(outcome) for outcome in silent] == [errors.InstanceNotFound, Started, errors.InstanceConflict]
    await pair.both_know()
    await pair.first.start(pair.cloud, spot("c"))
    outcomes = await pair.second.batch(pair.cloud, [StopRequest("c"), StopRequest("never")])
    assert outcomes[0] == Stopped("c", changed=True)
    assert isinstance(outcomes[1], errors.InstanceNotFound)
    await pair.first.start(pair.cloud, spot("d"))
    outcomes = await pair.second.batch(pair.cloud, [spot("e"), StopRequest("d"), StopRequest("a")])
    assert outcomes[1:] == [Stopped("d", changed=True), Stopped("a", changed=True)]
    assert set((await pair.first.state(pair.cloud)).running) == {"b", "e"}


async def test_promises_are_read_as_of_now(pair: Pair):
    await pair.first.start(pair.cloud, spot("a"))
    standing = await pair.second.attainments(pair.cloud)
    assert "a" in standing.cloud.running


async def test_promises_of_a_large_cloud_are_read_beside_the_event_loop(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    await pair.first.start(pair.cloud, spot("a"))
    await pair.first.change_policy(pair.cloud, lambda policy: replace(policy, guarantee=Guarantee.POOLED), None)
    names: list[str] = []
    exposure = instances.exposure
    monkeypatch.setattr(slots, "_FEW", 0)
    monkeypatch.setattr(instances, "exposure", lambda *of: names.append(current_thread().name) or exposure(*of))
    found = await asyncio.gather(*(pair.second.attainments(pair.cloud) for _ in range(5)))
    assert {one.seq for one in found} == {(await pair.first.state(pair.cloud)).seq}
    assert len(names) == 5
    assert {name.split("_")[0] for name in names} == {"slots"}


async def published(runs: Runs, run: Run) -> None:
    """Wait until the run has its table."""
    for _ in range(18_000):  # the first table of an installation waits for the compiler
        if (await runs.get(run.cloud_id, run.number)).epoch is not None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no table was published")


async def test_a_table_is_quoted_that_another_process_has_seen_published(database: Database):
    now = [DAY_US]
    # Neither process hears of tables: what a process holds must not depend on announcements.
    first, second = Process(database, lambda: now[0]), Process(database, lambda: now[0])
    try:
        name = await make_cloud(first, Policy(sample_count=100))
        assert await second.table(name) is None
        cloud_id = await first.scheduler.cloud_id(name)
        for epoch in (1, 2):
            now[0] += HOUR_US
            async with worker(first, lambda: now[0]):
                run = await Runs(database).request(cloud_id, RunCause.REQUESTED, None)
                await published(Runs(database), run)
            table = await second.table(name)
            assert table is not None
            assert table.epoch == epoch
    finally:
        await first.scheduler.close()
        await second.scheduler.close()
