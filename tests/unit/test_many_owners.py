"""Owners without number: those who tell nothing are forgotten by every fold alike, and nobody looks at all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from app.domain.errors import MarkerInvalid
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    QuotaRemoved,
    QuotaSet,
    Recorded,
)
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, EvictionReason, Guarantee, Market, Policy, Resources
from app.domain.weeks import week_of
from app.engine.cloud import NOBODY, Cloud, OwnerAccount, Quota
from app.engine.cloud.records import FIRST_ROWS
from app.platform import turns
from app.scheduling.owners import OwnersMoment
from app.scheduling.store.snapshots import decode_cloud, encode_cloud

pytestmark = pytest.mark.anyio
NONE = OwnerAccount()
OWNERS = [None, *(f"o{number:02}" for number in range(12))]


def started(name: str, at_us: int, owner: str | None, market: Market = Market.SPOT) -> InstanceStarted:
    lifetime_us = HOUR_US if market is Market.SPOT else None
    return InstanceStarted(
        at_us=at_us, instance_id=name, market=market, flavor="c1", node="n", lifetime_us=lifetime_us, owner=owner
    )


def stopped(name: str, at_us: int, *, aborted: bool = False) -> InstanceStopped:
    return InstanceStopped(at_us=at_us, instance_id=name, aborted=aborted)


class Months:
    """A random history of months in which owners come and go, and what a plain account of it says."""

    def __init__(self, random: Random) -> None:
        self.random, self.now_us, self.count = random, DAY_US, 0
        self.running: dict[str, str | None] = {}
        self.admitted: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.quotas: set[str] = set()
        self.week = week_of(DAY_US)

    def events(self, count: int) -> list[Event]:
        return [self.event() for _ in range(count)]

    def event(self) -> Event:
        self.now_us += self.random.choice([0, 0, HOUR_US, DAY_US, DAY_US, 9 * DAY_US])
        self.forget()
        return self.random.choice([self.start, self.start, self.end, self.end, self.change, self.drain])()

    def forget(self) -> None:
        week, runs = week_of(self.now_us), {owner or NOBODY for owner in self.running.values()} | {NOBODY}
        if week == self.week:
            return
        self.week = week
        for owner in {*self.admitted} - runs - self.quotas:
            if self.newest.get(owner, week - 4) <= week - 4:
                del self.admitted[owner]

    def start(self) -> Event:
        self.count += 1
        owner, name = self.random.choice(OWNERS), f"i{self.count}"
        if len(self.running) > 40:
            return self.end()
        if self.random.random() < 0.2:
            return started(name, self.now_us, owner, Market.ON_DEMAND)
        self.running[name] = owner
        self.admitted[owner or NOBODY] = self.admitted.get(owner or NOBODY, 0) + 1
        return started(name, self.now_us, owner)

    def end(self) -> Event:
        if not self.running:
            return self.drain()
        name = self.random.choice([*self.running])
        owner, choice = self.running.pop(name) or NOBODY, self.random.random()
        if choice < 0.1:
            self.admitted[owner] -= 1
            return stopped(name, self.now_us, aborted=True)
        if owner:
            self.newest[owner] = week_of(self.now_us)
        if choice < 0.2:
            drill = EvictionReason.DRILL
            return InstanceEvicted(at_us=self.now_us, instance_id=name, reason=drill, cause_seq=1)
        return stopped(name, self.now_us)

    def change(self) -> Event:
        owner = self.random.choice(OWNERS[1:7]) or ""
        if owner in self.quotas:
            self.quotas.remove(owner)
            return QuotaRemoved(at_us=self.now_us, owner=owner)
        self.quotas.add(owner)
        return QuotaSet(at_us=self.now_us, owner=owner, cores=9)

    def drain(self) -> Event:
        return NodeDrained(at_us=self.now_us, node="n")


def folded(log: Sequence[Recorded], pieces: int) -> Cloud:
    """Return the fold of a log that is read in so many pieces, with a snapshot taken and loaded between them."""
    cloud, size = Cloud(), -(-len(log) // pieces)
    for begin in range(0, len(log), size):
        found = decode_cloud(encode_cloud(cloud)) if begin else cloud
        assert found is not None
        cloud = found
        cloud.apply_recorded(log[begin : begin + size])
    return cloud


def made() -> list[Event]:
    size = Resources(1000)
    return [
        CloudCreated(at_us=DAY_US, policy=Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)),
        NodeAdded(at_us=DAY_US, node="n", capacity=size),
        FlavorAdded(at_us=DAY_US, flavor="c1", demand=Resources(1)),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_owners_who_tell_nothing_are_forgotten_by_every_fold_alike(seed: int) -> None:
    world, cloud = Months(Random(seed)), Cloud()
    log = [cloud.apply(event) for event in made()]
    cloud.commit()
    for events in (world.events(60) for _ in range(6)):
        before = cloud.digest()
        for event in events:
            cloud.apply(event)
        cloud.rollback()
        assert cloud.digest() == before, "what is undone leaves no trace"
        log += [cloud.apply(event) for event in events]
        cloud.commit()
        assert {name: one.admitted for name, one in cloud.owners.items()} == world.admitted
        assert cloud.owner_names == sorted({*world.admitted, *world.quotas})
    for pieces in (1, 7, 60):
        found = folded(log, pieces)
        assert found.digest() == cloud.digest()
        assert found.owner_names == cloud.owner_names


def test_a_run_over_weeks_forgets_as_single_events_do() -> None:
    cloud, run = Cloud(), list[InstanceStarted | InstanceStopped]()
    for event in made():
        cloud.apply(event)
    for number in range(40):
        at_us = DAY_US + number * 2 * DAY_US
        run += [started(f"i{number}", at_us, f"o{number:02}"), stopped(f"i{number}", at_us)]
    cloud.commit()
    before = cloud.digest()
    cloud.apply_run(run)
    assert cloud.owner_names == [f"o{number:02}" for number in range(40 - 14, 40)], "those of four weeks are left"
    in_runs = cloud.digest()
    cloud.rollback()
    assert cloud.digest() == before
    for event in run:
        cloud.apply(event)
    assert cloud.digest() == in_runs


def test_owners_without_a_row_take_no_number() -> None:
    """Each start of a spot instance counts by these numbers what overruns."""
    cloud = Cloud()
    for event in made():
        cloud.apply(event)
    cloud.apply(started("stays", DAY_US, "stays"))
    for number in range(3000):
        cloud.apply(started(f"i{number}", DAY_US, f"o{number}"))
        cloud.apply(stopped(f"i{number}", DAY_US))
    cloud.apply(started("last", DAY_US, "last"))
    later = DAY_US + 2 * HOUR_US
    assert cloud.overrunning_now(later)() == dict.fromkeys(("stays", "last"), (1, 1, HOUR_US))
    assert [cloud.overrunning_cores(name, later) for name in ("stays", "last", "o2")] == [1, 1, 0]
    assert len(cloud._instances.rows._owners) <= 2 * FIRST_ROWS


async def many(count: int) -> tuple[OwnersMoment, dict[str, OwnerAccount]]:
    """Return owners with random accounts, some of them with a quota alone."""
    random, cloud = Random(count), Cloud()
    accounts = {f"o{random.random()}": OwnerAccount(*random.choices(range(9), k=7)) for _ in range(count)}
    accounts |= {NOBODY: OwnerAccount(1, 2, 3)} if count % 2 else {}
    facts = cloud.facts()._replace(owners=[*accounts.items()], quotas=[("asks", Quota(cores=7)), ("z", Quota())])
    return await OwnersMoment.of(Cloud.of_facts(facts), DAY_US), accounts


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000, 1001])
async def test_pages_of_owners_are_those_of_the_whole_list(count: int) -> None:
    moment, accounts = await many(count)
    names = sorted({"asks", "z", *accounts}, key=lambda name: (name == NOBODY, name))
    for limit in (1, 3, 1000) if count < 10 else (7, 1000):
        found, marker = list[str](), None
        while True:
            page, marker = moment.after(marker, limit)
            found += page
            assert len(page) <= limit
            if marker is None:
                break
        assert found == names
    with pytest.raises(MarkerInvalid):
        moment.after("unknown", 1)
    assert moment.standing("asks").quota.cores == 7
    assert moment.named == len(names) - (count % 2)
    ranked = sorted(names, key=lambda name: (-accounts.get(name, NONE).cores, -accounts.get(name, NONE).admitted, name))
    assert await moment.largest(5) == ranked[:5]
    assert await moment.largest(len(names) + 9) == ranked
    assert await moment.total() == OwnerAccount(*map(sum, zip(NONE, *accounts.values(), strict=True)))


async def test_a_pass_over_all_owners_gives_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, _ = await many(20_000)
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for work in (moment.largest(10), moment.largest(20_000), moment.total()):
        before = passes
        await work
        assert passes - before > 30
    counting.cancel()
