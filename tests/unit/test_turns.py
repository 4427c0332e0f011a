"""Long work gives turns, however much of it there is."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from app.platform.turns import COLLECTOR, Turns


@pytest.mark.anyio
async def test_of_all_long_work_one_slice_is_done_in_a_pass() -> None:
    slices, seen, working = 0, list[int](), 20

    async def work() -> None:
        nonlocal slices, working
        with Turns() as turns:
            await turns.give()
            for _ in range(3):
                slices += 1
                while not turns.is_due():
                    pass
                await turns.give()
        working -= 1

    async def watch() -> None:
        while working:
            before = slices
            await asyncio.sleep(0)
            seen.append(slices - before)

    await asyncio.gather(*[work() for _ in range(working)], watch())
    assert slices == 60
    assert max(seen) == 1


@pytest.mark.anyio
async def test_work_that_breaks_off_does_not_keep_its_turn() -> None:
    async def work(*, breaks: bool) -> None:
        with Turns() as turns:
            await turns.give()
            if breaks:
                raise ValueError
            await turns.give()

    broken = asyncio.ensure_future(work(breaks=False))
    await asyncio.sleep(0)
    broken.cancel()
    done = await asyncio.gather(broken, work(breaks=True), work(breaks=False), return_exceptions=True)
    assert [type(one) for one in done] == [asyncio.CancelledError, ValueError, type(None)]


def test_nothing_is_collected_in_a_block_nor_between_two_that_overlap() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with COLLECTOR.waits():
            begun.set()
            go_on.wait(10)

    other = threading.Thread(target=hold)
    with COLLECTOR.waits():
        assert not gc.isenabled()
        other.start()
        assert begun.wait(10)
    assert not gc.isenabled()
    go_on.set()
    other.join(10)
    assert gc.isenabled()


def test_what_stays_is_not_looked_through_again_until_it_is_given_up() -> None:
    with COLLECTOR.waits():
        stays = [[number] for number in range(10_000)]
    ids = {id(one) for one in stays}
    assert not ids.intersection(map(id, gc.get_objects()))
    COLLECTOR.looks_again()
    assert ids <= {id(one) for one in gc.get_objects()}
