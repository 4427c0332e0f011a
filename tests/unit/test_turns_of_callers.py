"""Turns at what requests of several callers wait for: nobody's, and not all of them one caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

import pytest

from app.platform.asked import CommonTurns, TurnsAtEach, asked_by, is_read, reading, whose

pytestmark = pytest.mark.anyio


async def test_who_has_a_turn_is_nobody() -> None:
    asked_by("somebody")
    with reading():
        async with CommonTurns().taken():
            assert (whose(), is_read()) == (None, False)
        assert (whose(), is_read()) == ("somebody", True)


async def settled(turns: TurnsAtEach, *asked: tuple[Hashable, Hashable]) -> list[tuple[Hashable, Hashable]]:
    """Return which of these callers with their keys have turns, where nobody gives one back."""
    got = list[tuple[Hashable, Hashable]]()

    async def ask(caller: Hashable, key: Hashable) -> None:
        asked_by(caller)
        async with turns.taken(key):
            got.append((caller, key))
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(ask(*one)) for one in asked]
    for _ in range(10):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return got


async def test_one_caller_has_one_of_the_turns() -> None:
    """Its further requests hold nothing while they wait, not even what the other one asks for."""
    found = await settled(TurnsAtEach(2), ("many", "a"), ("many", "b"), ("many", "c"), ("few", "b"))
    assert found == [("many", "a"), ("few", "b")]


async def test_there_is_one_turn_at_each() -> None:
    turns = TurnsAtEach(3)
    assert await settled(turns, ("x", "a"), ("y", "a"), ("z", "b")) == [("x", "a"), ("z", "b")]
    assert await settled(turns, ("y", "a")) == [("y", "a")]  # all were given back


async def test_there_are_so_many_turns_in_all_and_nobody_may_have_several() -> None:
    assert len(await settled(TurnsAtEach(2), *((None, key) for key in "abc"))) == 2
