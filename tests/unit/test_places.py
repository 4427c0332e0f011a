"""Places of requests in the pool of connections."""

from __future__ import annotations

import asyncio
import random

import pytest

from app.domain.values import Caller, Role
from app.platform.asked import Askers, asked_by, for_all
from app.platform.database.places import OF_CALLER, ConnectionPlaces, PoolPlaces, SharedPlaces

pytestmark = pytest.mark.anyio


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_caller_has_few_places_and_others_the_rest() -> None:
    places, got = ConnectionPlaces(5), []

    async def ask(caller: str) -> None:
        await places.take(caller)
        got.append(caller)

    asked = [asyncio.create_task(ask("many")) for _ in range(100)]
    await settled()
    assert got == ["many"] * OF_CALLER
    await asyncio.wait_for(ask("few"), 1)
    assert got == ["many"] * OF_CALLER + ["few"]
    places.leave("many")
    await settled()
    assert got.count("many") == OF_CALLER + 1
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_callers_who_wait_have_turns() -> None:
    """The last one waits for one of each caller, not for all that came before."""
    places, got = ConnectionPlaces(1), []
    await places.take("first")

    async def ask(caller: str) -> None:
        await places.take(caller)
        got.append(caller)
        places.leave(caller)

    async with asyncio.TaskGroup() as group:
        for caller in ("a", "a", "a", "b", "b", "c"):
            group.create_task(ask(caller))
        await settled()
        places.leave("first")
    assert got == ["a", "b", "c", "a", "b", "a"]


async def test_groups_that_wait_have_turns() -> None:
    """Very many callers of one group count as one; within a group callers have turns, as without any other group."""
    places, got = ConnectionPlaces(1), []
    await places.take("first")

    async def ask(caller: str) -> None:
        await places.take(caller, caller[0])
        got.append(caller)
        places.leave(caller)

    async with asyncio.TaskGroup() as group:
        for caller in ("a1", "a1", "a2", "a3", "a4", "b1", "b1", "c1"):
            group.create_task(ask(caller))
        await settled()
        places.leave("first")
    assert got == ["a1", "b1", "c1", "a2", "b1", "a3", "a4", "a1"]


def test_tokens_of_one_cloud_are_a_group() -> None:
    def group(name: str, cloud: str | None) -> object:
        return Caller(1, name, Role.READER, cloud).group

    assert group("m1.reader", "shop") == group("m2.reader", "shop")
    assert group("lab.ann", None) == group("lab.bob", None)
    assert len({group("shop", "shop"), group("shop", None), group("lab.ann", None)}) == 3


async def test_who_goes_away_leaves_its_place_to_others() -> None:
    places = ConnectionPlaces(1)
    await places.take("first")
    gone, next_ = asyncio.create_task(places.take("gone")), asyncio.create_task(places.take("next"))
    await settled()
    gone.cancel()
    await settled()
    places.leave("first")
    await asyncio.wait_for(next_, 1)


async def test_who_goes_away_just_as_it_gets_a_place_gives_it_on() -> None:
    places = ConnectionPlaces(1)
    await places.take("first")
    gone, next_ = asyncio.create_task(places.take("gone")), asyncio.create_task(places.take("next"))
    await settled()
    places.leave("first")
    gone.cancel()
    await asyncio.wait_for(next_, 1)
    with pytest.raises(asyncio.CancelledError):
        await gone


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_or_given_twice(seed: int) -> None:
    """Callers come, go away while they wait, and leave, in any order."""
    rng, count = random.Random(seed), 3
    places, held = ConnectionPlaces(count), dict.fromkeys("abcd", 0)

    async def use(caller: str) -> None:
        await places.take(caller, "ab" if caller in "ab" else "cd")
        held[caller] += 1
        assert sum(held.values()) <= count
        assert held[caller] <= OF_CALLER
        try:
            await asyncio.sleep(rng.random() / 1000)
        finally:
            held[caller] -= 1
            places.leave(caller)

    tasks = [asyncio.create_task(use(rng.choice("abcd"))) for _ in range(200)]
    for _ in range(60):
        await asyncio.sleep(rng.random() / 1000)
        rng.choice(tasks).cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in done} <= {type(None), asyncio.CancelledError}
    for caller in "abc":  # all are free again
        await asyncio.wait_for(places.take(caller), 1)


async def test_who_asks_for_very_many_clouds_has_one_turn_like_others() -> None:
    """The one cloud of another caller waits for one of them, and what both wait for goes with his turn."""
    places, got = SharedPlaces(1), []
    await places.take(["many"])

    async def ask(cloud: str, *callers: str) -> None:
        await places.take(callers)
        got.append(cloud)
        places.leave()

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(ask(f"of many {number}", "many"))
        group.create_task(ask("of both", "many", "few"))
        group.create_task(ask("of few", "few"))
        group.create_task(ask("of nobody"))
        await settled()
        places.leave()
    assert got[:2] == ["of both", "of nobody"]
    assert sorted(got[2:4]) == ["of few", "of many 0"]


async def test_who_begins_to_wait_for_it_takes_part_at_once() -> None:
    places, got = SharedPlaces(1), []
    await places.take(["many"])
    askers = {"a": ["many"], "b": ["many"]}

    async def ask(cloud: str) -> None:
        await places.take(askers[cloud])
        got.append(cloud)

    asked = [asyncio.create_task(ask(cloud)) for cloud in askers]
    await settled()
    askers["b"].append("few")
    places.leave()
    await settled()
    assert got == ["b"]
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_that_is_shared_is_lost_or_given_twice(seed: int) -> None:
    rng, count, held = random.Random(seed), 3, 0
    places = SharedPlaces(count)

    async def use(callers: str) -> None:
        nonlocal held
        await places.take(callers)
        held += 1
        assert held <= count
        try:
            await asyncio.sleep(rng.random() / 1000)
        finally:
            held -= 1
            places.leave()

    tasks = [asyncio.create_task(use(rng.choice(["a", "b", "ab", "abc", ""]))) for _ in range(200)]
    for _ in range(60):
        await asyncio.sleep(rng.random() / 1000)
        rng.choice(tasks).cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in done} <= {type(None), asyncio.CancelledError}
    for _ in range(count):  # all are free again
        await asyncio.wait_for(places.take("a"), 1)


async def test_a_call_for_all_who_wait_has_a_shared_place_and_one_for_nobody_none() -> None:
    pool, askers = PoolPlaces(2), Askers()
    asked_by("caller")
    with askers.joined(), for_all(askers):
        assert [*askers] == ["caller"]
        shared = pool.of_now()
        await shared.take()
        await shared.take()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.of_now().take(), 0.01)
    assert not askers
    with for_all():
        assert pool.of_now() is None
    await pool.of_now().take()
