"""The event log against a real PostgreSQL."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from sample_events import LOG

from app.domain.budgets import Budget
from app.domain.errors import CloudExists
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
)
from app.domain.events.registry import KINDS, kind_of
from app.domain.values import Basis, EvictionReason, Market, Policy, Rejection, Resources
from app.platform import turns
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.codec import UnknownEvent, decode, encode
from app.scheduling.store.conflicts import InstanceTaken, PredecessorMissing, SeqConflict
from app.scheduling.store.log import NO_EVENT, EventLog, EventMark

pytestmark = pytest.mark.anyio

_names = count(1)
END_US = LOG[-1].at_us
EXTREME = InstanceStarted(
    at_us=END_US + 2,
    instance_id="extreme",
    market=Market.SPOT,
    flavor="f",
    node="n1",
    lifetime_us=10**15,
    probability=1e-7,
    basis=Basis(3, 1, 0.1 + 0.2, 10**15 + 1, 5e-324, Budget(0.1 + 0.2, 2, 1 / 3, 1.0, 0.2), 0.9),
)
"""Numbers at the ends of what is written exactly."""
EVENTS: list[Event] = [
    *LOG,
    FlavorAdded(at_us=END_US + 1, flavor='größe ☃ "quoted" \\ {a,b}', demand=Resources(1, 2, 3)),
    EXTREME,
]


def numbered(events: list[Event], first_seq: int = 1) -> list[Recorded]:
    return [Recorded(seq, event) for seq, event in enumerate(events, first_seq)]


def rejected(instance_id: str, at_us: int = 0) -> InstanceRejected:
    return InstanceRejected(
        at_us=at_us, instance_id=instance_id, market=Market.ON_DEMAND, flavor="f", reason=Rejection.NO_CAPACITY
    )


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


@pytest.fixture
async def cloud_id(database: Database) -> int:
    return await Clouds(database).create(f"log-{next(_names)}", Recorded(1, LOG[0]))


def test_every_event_has_a_kind_and_survives_encoding() -> None:
    assert {type(event) for event in EVENTS} == {kind.form for kind in KINDS.values()}
    for event in EVENTS:
        assert decode(kind_of(event), 1, encode(event)) == event


def test_kinds_and_fields_are_what_logs_already_hold() -> None:
    assert decode("instance_stopped", 1, '{"at_us":5,"instance_id":"i"}') == InstanceStopped(at_us=5, instance_id="i")
    assert decode("cloud_created", 1, '{"at_us":5,"policy":{}}') == CloudCreated(at_us=5, policy=Policy())


@pytest.mark.parametrize(("kind", "version"), [("instance_paused", 1), ("instance_started", 99)])
def test_an_event_of_a_newer_version_is_refused(kind: str, version: int) -> None:
    with pytest.raises(UnknownEvent, match=kind):
        decode(kind, version, "{}")


async def test_what_is_appended_is_read_back_equal(log: EventLog, cloud_id: int) -> None:
    await log.append(cloud_id, numbered(EVENTS[1:], 2))
    assert await log.tail(cloud_id, 0, 1000) == numbered(EVENTS)
    assert await log.tail(cloud_id, 3, 2) == numbered(EVENTS)[3:5]
    assert await log.last_seq(cloud_id) == len(EVENTS)
    assert await log.last_seq(cloud_id + 1000) == 0


async def test_a_taken_seq_is_a_conflict_and_nothing_is_kept(log: EventLog, cloud_id: int) -> None:
    await log.append(cloud_id, [Recorded(2, rejected("b"))])
    with pytest.raises(SeqConflict):
        await log.append(cloud_id, [Recorded(2, rejected("a")), Recorded(3, rejected("c"))])
    assert [item.seq for item in await log.tail(cloud_id, 0, 100)] == [1, 2]


async def test_nothing_is_kept_without_the_event_before(log: EventLog, cloud_id: int) -> None:
    with pytest.raises(PredecessorMissing):
        await log.append(cloud_id, [Recorded(3, rejected("b")), Recorded(4, rejected("c"))])
    with pytest.raises(PredecessorMissing):
        await log.append(cloud_id, [Recorded(2, rejected("b"))], EventMark(1, 7))
    assert await log.last_seq(cloud_id) == 1
    mark = await log.append(
        cloud_id, [Recorded(2, rejected("b")), Recorded(3, rejected("c"))], await log.mark_at(cloud_id, 1)
    )
    assert mark == await log.last_mark(cloud_id) == await log.mark_at(cloud_id, 3)
    assert mark.seq == 3


async def test_the_events_after_a_known_one(log: EventLog, cloud_id: int) -> None:
    first = await log.last_mark(cloud_id)
    added = [Recorded(seq, rejected(f"i-{seq}")) for seq in (2, 3, 4)]
    last = await log.append(cloud_id, added)
    assert await log.after(cloud_id, first, 2) == (added[:2], await log.mark_at(cloud_id, 3))
    assert await log.after(cloud_id, first, 3) == (added, last)
    assert await log.after(cloud_id, last, 3) == ([], last)
    found, mark = await log.after(cloud_id, NO_EVENT, 9)
    assert (found[1:], mark) == (added, last)
    assert await log.after(cloud_id + 1000, NO_EVENT, 9) == ([], NO_EVENT)
    for other in (EventMark(2, first.digest), EventMark(9, last.digest)):
        with pytest.raises(PredecessorMissing):
            await log.after(cloud_id, other, 9)


@pytest.mark.parametrize(
    "again", [rejected("i"), InstanceStarted(at_us=0, instance_id="i", market=Market.ON_DEMAND, flavor="f", node="n")]
)
async def test_an_instance_starts_once(log: EventLog, cloud_id: int, again: Event) -> None:
    await log.append(cloud_id, [Recorded(2, rejected("i"))])
    with pytest.raises(InstanceTaken):
        await log.append(cloud_id, [Recorded(3, rejected("other")), Recorded(4, again)])
    assert await log.last_seq(cloud_id) == 2


async def test_an_instance_ends_once(log: EventLog, cloud_id: int) -> None:
    await log.append(cloud_id, [Recorded(2, InstanceStopped(at_us=0, instance_id="i"))])
    with pytest.raises(InstanceTaken):
        await log.append(
            cloud_id,
            [Recorded(3, InstanceEvicted(at_us=0, instance_id="i", reason=EvictionReason.NODE_REMOVED, cause_seq=4))],
        )


async def test_two_writers_at_one_seq_one_wins(log: EventLog, cloud_id: int) -> None:
    batches = [numbered([rejected(f"{writer}-{i}") for i in range(20)], 2) for writer in "ab"]
    results = await asyncio.gather(*(log.append(cloud_id, batch) for batch in batches), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["EventMark", "SeqConflict"]
    assert await log.tail(cloud_id, 1, 100) == batches[results.index(await log.last_mark(cloud_id))]


async def test_clouds_do_not_see_each_others_events(log: EventLog, cloud_id: int, database: Database) -> None:
    other = await Clouds(database).create(f"log-{next(_names)}", Recorded(1, CloudCreated(at_us=7, policy=Policy())))
    await log.append(cloud_id, [Recorded(2, rejected("i"))])
    await log.append(other, [Recorded(2, rejected("i", 8))])
    assert await log.starts(other, ["i"]) == {"i": Recorded(2, rejected("i", 8))}


async def test_starts_and_ends_are_found_by_instance(log: EventLog, cloud_id: int) -> None:
    await log.append(cloud_id, numbered(EVENTS[1:], 2))
    recorded = numbered(EVENTS)
    assert await log.starts(cloud_id, ["s", "no", "nobody"]) == {"s": recorded[10], "no": recorded[11]}
    assert await log.ends(cloud_id, ["s", "least", "no"]) == {"s": recorded[16], "least": recorded[21]}
    assert await log.starts(cloud_id, []) == {}


async def test_started_page_goes_on_after_a_seq(log: EventLog, cloud_id: int) -> None:
    await log.append(cloud_id, numbered(EVENTS[1:], 2))
    recorded = numbered(EVENTS)
    assert await log.started_page(cloud_id, 0, 2) == recorded[8:10]
    assert await log.started_page(cloud_id, recorded[9].seq, 2) == recorded[10:12]
    decided = [one for one in recorded if isinstance(one.event, InstanceStarted | InstanceRejected)]
    spot = [one for one in decided if one.event.market is Market.SPOT]
    assert len(spot) >= 10
    assert await log.started_page(cloud_id, 0, 10, Market.SPOT) == spot[:10]


async def test_a_turn_commits_at_its_end(log: EventLog, cloud_id: int) -> None:
    async with log.locked(cloud_id) as turn:
        assert await turn.tail(cloud_id, 0, 100) == numbered(EVENTS[:1])
        await turn.append(cloud_id, [Recorded(2, rejected("i"))])
        assert await log.last_seq(cloud_id) == 1
    assert await log.last_seq(cloud_id) == 2


async def test_a_turn_that_raises_leaves_no_trace(log: EventLog, cloud_id: int) -> None:
    async def change_my_mind() -> None:
        async with log.locked(cloud_id) as turn:
            await turn.append(cloud_id, [Recorded(2, rejected("i"))])
            raise OSError("changed my mind")

    with pytest.raises(OSError, match="changed my mind"):
        await change_my_mind()
    assert await log.last_seq(cloud_id) == 1


async def test_a_conflict_inside_a_turn_is_a_conflict(log: EventLog, cloud_id: int) -> None:
    async def come_second() -> None:
        async with log.locked(cloud_id) as turn:
            await log.append(cloud_id, [Recorded(2, rejected("first"))])
            await turn.append(cloud_id, [Recorded(2, rejected("second"))])

    with pytest.raises(SeqConflict):
        await come_second()
    assert await log.starts(cloud_id, ["second"]) == {}


async def test_turns_follow_one_another(log: EventLog, cloud_id: int) -> None:
    async def write_next() -> None:
        async with log.locked(cloud_id) as turn:
            seq = (await turn.tail(cloud_id, 0, 100))[-1].seq + 1
            await asyncio.sleep(0.001)
            await turn.append(cloud_id, [Recorded(seq, rejected(f"i{seq}"))])

    await asyncio.gather(*(write_next() for _ in range(8)))
    assert [item.seq for item in await log.tail(cloud_id, 0, 100)] == list(range(1, 10))


async def test_the_reading_of_many_events_takes_turns_and_that_of_few_does_not(
    log: EventLog, cloud_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(cloud_id, numbered([rejected(f"i{number}") for number in range(150)], 2))
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    with turns.Turns() as others:
        await others.give()
        assert len(await asyncio.wait_for(log.tail(cloud_id, 0, 100), 30)) == 100
        reading = asyncio.create_task(log.tail(cloud_id, 0, 200))
        done, _ = await asyncio.wait([reading], timeout=1)
        assert not done
    assert [item.seq for item in await asyncio.wait_for(reading, 30)] == [*range(1, 152)]


async def test_a_cloud_name_is_taken_once(database: Database) -> None:
    clouds = Clouds(database)
    first = Recorded(1, LOG[0])
    cloud_id = await clouds.create("only", first)
    with pytest.raises(CloudExists, match="only"):
        await clouds.create("only", first)
    assert await clouds.find("only") == cloud_id
    assert await clouds.find("other") is None
    assert (await clouds.list())["only"] == cloud_id
