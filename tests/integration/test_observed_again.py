"""Observations are read once: one more of them costs what changed, and changes no other answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from app.domain.times import DAY_US, HOUR_US, SECOND_US, from_rfc3339
from app.platform.database.database import Database
from app.venues.observing import ObservedReads
from app.venues.rules.history import PoolName
from app.venues.rules.observed import ObservedPools, Sighting, SightingKind, runs_of
from app.venues.rules.rates import RevokedBy
from app.venues.store import observations
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import GivenPrices, StoredVenue, VenuePriceStore

pytestmark = pytest.mark.anyio
MINUTE_US = 60 * SECOND_US
NOW_US = from_rfc3339("2025-03-01T11:30:00Z")
POOLS = [PoolName("aws", "r", f"r{zone}", f"{family}.large", "Linux") for zone in "abcd" for family in ("m5", "c5")]
FIRST_DAY_US = (NOW_US // DAY_US - 365) * DAY_US
LIFETIMES_US = (HOUR_US, 5 * HOUR_US, 40 * DAY_US)


class Asked(NamedTuple):
    """A venue as a process reads it: its store, the pools that were read of it, and the clock."""

    database: Database
    store: ObservationStore
    venue: StoredVenue
    reads: ObservedReads
    read: list[int]
    clock: list[int]

    async def at(self, at_us: int) -> ObservedPools:
        prices = VenuePriceStore(self.database)
        venue = await prices.get(self.venue.name)
        assert venue is not None
        return (await self.reads.of(venue, await prices.all_pools(venue.id), at_us)).observed


async def asked(database: Database, name: str, revoked_by: RevokedBy = RevokedBy.CAPACITY) -> Asked:
    venue, _ = await VenuePriceStore(database).write(name, GivenPrices({}, None, {}, [], {}, revoked_by))
    store, read, clock = ObservationStore(database), list[int](), [NOW_US]
    pages = store._pages

    def counted(pools: Sequence[int], *times_us: int) -> object:
        read.append(len(pools))
        return pages(pools, *times_us)

    store._pages = counted  # type: ignore[method-assign,assignment]
    return Asked(database, store, venue, ObservedReads(store, lambda: clock[0]), read, clock)


def told(pools: Sequence[PoolName], first_us: int, last_us: int, draw: random.Random, count: int) -> list[Sighting]:
    found = set()
    for _ in range(count):
        at_us = draw.randrange(first_us, last_us)
        found.add(Sighting(draw.choice(pools), f"i-{draw.randrange(60)}", at_us, draw.choice([*SightingKind])))
    return sorted(found)


async def test_one_more_observation_reads_its_pool_alone(database: Database) -> None:
    one = await asked(database, "again")
    await one.store.add(one.venue.id, told(POOLS, NOW_US - 30 * DAY_US, NOW_US, random.Random(1), 400))
    before = await one.at(NOW_US)
    assert one.read == [len(POOLS)]
    assert await one.at(NOW_US) is before
    await one.store.add(one.venue.id, [Sighting(POOLS[3], "new", NOW_US - MINUTE_US, SightingKind.STARTED)])
    one.clock[0] += DAY_US
    assert await one.at(NOW_US + DAY_US) is not before
    assert one.read == [len(POOLS), 1]


async def test_what_is_known_is_what_all_observations_say(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of earlier times, with observations that come late or ahead of the clock, days that go by, and too many."""
    monkeypatch.setattr(observations, "MOST_SEEN", 700)
    for seed in range(3):
        one, draw, everything = await asked(database, f"every-{seed}"), random.Random(seed), set[Sighting]()
        for _ in range(25):
            now_us = one.clock[0]
            first_us = draw.choice((FIRST_DAY_US - DAY_US, now_us - DAY_US))
            given = told(draw.sample(POOLS, 2), first_us, now_us + 4 * MINUTE_US, draw, draw.choice((1, 3, 90)))
            await one.store.add(one.venue.id, given)
            everything |= {*given}
            at_us = now_us - draw.choice((0, 0, 0, HOUR_US, 12 * HOUR_US, 3 * DAY_US))
            assert_same(await one.at(at_us), expected(everything, at_us, now_us))
            one.clock[0] += draw.choice((0, MINUTE_US, HOUR_US, DAY_US))


def expected(everything: set[Sighting], at_us: int, now_us: int) -> ObservedPools:
    last_us = at_us if at_us < now_us - DAY_US else now_us + 5 * MINUTE_US
    some = [one for one in everything if (at_us // DAY_US - 365) * DAY_US <= one.at_us <= last_us]
    some.sort(key=lambda one: one.at_us)
    if len(some) > observations.MOST_SEEN:
        cut_us = some[-observations.MOST_SEEN - 1].at_us
        some = [one for one in some if one.at_us > cut_us]
    some = [one for one in some if one.at_us <= at_us]
    return ObservedPools(runs_of(some, max((one.at_us for one in some), default=at_us)), {})


def assert_same(found: ObservedPools, wanted: ObservedPools) -> None:
    for pool in POOLS:
        for lifetime_us in LIFETIMES_US:
            assert found.survival(pool, lifetime_us, 8, 0.95) == wanted.survival(pool, lifetime_us, 8, 0.95)


async def test_what_is_seen_where_a_price_ends_machines_leaves_what_was_read_of_the_venue(database: Database) -> None:
    one = await asked(database, "priced", RevokedBy.PRICE)
    versions = []
    for name in ("a", "b"):
        await one.store.add(one.venue.id, [Sighting(POOLS[0], name, NOW_US, SightingKind.STARTED)])
        venue = await VenuePriceStore(database).get("priced")
        assert venue is not None
        versions.append(venue.version - one.venue.version)
    assert versions == [1, 1], "the first brought a pool"
