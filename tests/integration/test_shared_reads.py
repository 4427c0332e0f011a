"""Readers of a cloud's state who wait together share one read of its log, and none of them gets an older state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from time import monotonic
from typing import NamedTuple

import pytest

from app.domain.errors import LogUnavailable
from app.domain.events import CloudCreated, NodeAdded, Recorded
from app.domain.values import Clock, Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.database.database import Database
from app.scheduling.appending import Appender, Logs, States
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog, LogAccess
from app.scheduling.store.snapshots import Snapshots

pytestmark = pytest.mark.anyio
names = (f"shared-{number}" for number in count())
POLICY = Policy(clock=Clock.EXTERNAL, guarantee=Guarantee.NONE)


class Side(NamedTuple):
    """A process's writer of the cloud, and how often that read the log."""

    appender: Appender
    reads: list[int]


@pytest.fixture
async def sides(database: Database) -> tuple[Side, Side]:
    """Two processes that know one cloud."""
    cloud_id = await Clouds(database).create(next(names), Recorded(1, CloudCreated(at_us=0, policy=POLICY)))
    return side(database, cloud_id), side(database, cloud_id)


def side(database: Database, cloud_id: int) -> Side:
    log, reads = EventLog(database), list[int]()
    after = log.after

    async def counted(*arguments: object) -> object:
        reads.append(1)
        return await after(*arguments)  # type: ignore[arg-type]

    log.after = counted  # type: ignore[method-assign,assignment]
    return Side(States(Logs(log, Snapshots(database), LogHeads(database, log))).appender(cloud_id), reads)


async def add_node(one: Side, after: asyncio.Event | None = None) -> int:
    """Append an event, decided after this one; return its seq."""

    async def decide(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
        if after is not None:
            await after.wait()
        return [cloud.apply(NodeAdded(at_us=0, node=f"n{cloud.seq}", capacity=Resources(1)))]

    await one.appender.append_decided(decide)
    return one.appender.cloud.seq


async def test_many_who_ask_at_once_cost_two_reads(sides: tuple[Side, Side]) -> None:
    one, other = sides
    await one.appender.current()
    seq = await add_node(other)
    one.reads.clear()
    clouds = await asyncio.gather(*(one.appender.current() for _ in range(200)))
    assert {cloud.seq for cloud in clouds} == {seq}
    assert len(one.reads) == 2, "one began before all but the first had asked"


async def test_who_asks_later_gets_a_read_of_its_own(sides: tuple[Side, Side]) -> None:
    one, other = sides
    for _ in range(3):
        await one.appender.current()
        seq = await add_node(other)
        one.reads.clear()
        assert (await one.appender.current()).seq == seq
        assert len(one.reads) == 1


async def test_who_waits_for_a_commit_of_its_own_process_needs_no_read(sides: tuple[Side, Side]) -> None:
    one, _ = sides
    await one.appender.current()
    one.reads.clear()
    has_asked = asyncio.Event()
    writing = asyncio.create_task(add_node(one, has_asked))
    asking = asyncio.create_task(one.appender.current())
    await asyncio.sleep(0)
    has_asked.set()
    seq = await writing
    assert (await asking).seq == seq
    assert not one.reads


async def test_nobody_gets_a_state_older_than_what_was_durable_when_it_asked(sides: tuple[Side, Side]) -> None:
    durable = 0

    async def write(one: Side) -> None:
        nonlocal durable
        for _ in range(40):
            durable = max(durable, await add_node(one))

    async def read(one: Side, pause_s: float) -> None:
        while not all(task.done() for task in writing):
            at_least = durable
            assert (await one.appender.current()).seq >= at_least
            await asyncio.sleep(pause_s)

    writing = [asyncio.create_task(write(one)) for one in sides]
    await asyncio.gather(*(read(one, number / 1000) for one in sides for number in range(12)), *writing)
    assert durable == 1 + 80


async def test_who_joins_a_load_gets_what_came_since_it_began(sides: tuple[Side, Side]) -> None:
    one, other = sides
    loaded, goes_on = asyncio.Event(), asyncio.Event()
    load = one.appender._loaded

    async def slow() -> object:
        state = await load()
        loaded.set()
        await goes_on.wait()
        return state

    one.appender._loaded = slow  # type: ignore[method-assign,assignment]
    first = asyncio.create_task(one.appender.current())
    await loaded.wait()
    first.cancel()
    await asyncio.wait([first])
    seq = await add_node(other)
    goes_on.set()
    assert (await one.appender.current()).seq == seq


async def test_who_waited_while_the_state_was_forgotten_reads_the_log(sides: tuple[Side, Side]) -> None:
    one, _ = sides
    seq = await add_node(one)
    async with one.appender._alone.taken():
        asking = asyncio.create_task(one.appender.current())
        await asyncio.sleep(0)
        one.appender._seen_s = monotonic()  # as after an append that began since
        one.appender._forget()  # as a log put back has it, and the load after it fails
    assert (await asking).seq == seq


async def test_who_asked_before_a_load_failed_does_not_wait_for_another(sides: tuple[Side, Side]) -> None:
    one, other = sides
    seq = await add_node(other)
    find, silence, finds = one.appender._find, asyncio.Event(), 0

    async def silent() -> int:
        nonlocal finds
        finds += 1
        await silence.wait()
        raise LogUnavailable("the database says nothing")

    one.appender._find = silent
    asking = [asyncio.create_task(one.appender.current()) for _ in range(20)]
    await asyncio.sleep(0)
    silence.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(error) for error in found] == [LogUnavailable] * 20
    assert finds == 1
    one.appender._find = find
    assert (await one.appender.current()).seq == seq


async def test_the_error_of_a_load_that_nobody_waited_for_is_nobodys(sides: tuple[Side, Side]) -> None:
    one, other = sides
    seq = await add_node(other)
    find, began, goes_on = one.appender._find, asyncio.Event(), asyncio.Event()

    async def failing() -> int:
        began.set()
        await goes_on.wait()
        raise LogUnavailable("the database says nothing")

    one.appender._find = failing
    first = asyncio.create_task(one.appender.current())
    await began.wait()
    first.cancel()
    await asyncio.wait([first])
    goes_on.set()
    await asyncio.sleep(0.01)
    one.appender._find = find
    assert (await one.appender.current()).seq == seq


async def test_a_state_that_an_event_does_not_fit_is_loaded_anew(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sides
    await one.appender.current()
    seq = await add_node(other)

    def unfit(*_: object) -> None:
        raise ValueError("this event does not fit")

    with monkeypatch.context() as patch:
        patch.setattr(Cloud, "apply_recorded", unfit)
        with pytest.raises(ValueError, match="does not fit"):
            await one.appender.current()
    assert [*(await one.appender.current()).nodes] == [f"n{seq - 1}"]
