"""Requests in a line before a database that does not answer wait for one bound, not for the sum of them.

Those whose callers went away meanwhile take nobody's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect, Request

from app.domain.errors import LogUnavailable
from app.platform.asked import one_bound
from app.platform.database.bounds import Bounds
from app.platform.http.auth import Authenticator
from app.platform.http.dear import DearQueues, read_in_turn

pytestmark = pytest.mark.anyio
BOUND_S = 0.4
COUNT = 12


class Silent:
    """A database that never answers, and the tokens in it."""

    def __init__(self) -> None:
        self._bounds = Bounds(BOUND_S)

    async def call(self) -> None:
        try:
            with self._bounds.bound() as bound:
                await bound.connected(asyncio.Event().wait())
        except TimeoutError as error:
            raise LogUnavailable("silent") from error

    async def find(self, _: bytes) -> None:
        await self.call()

    def is_foreign(self, _: bytes) -> bool:
        return False


async def longest(ask: Callable[[int], Awaitable[Any]]) -> float:
    """Let many ask at once; return after how many seconds the last of them has its error."""

    async def refused(number: int) -> float:
        began_s = monotonic()
        with one_bound(), pytest.raises(LogUnavailable):
            await ask(number)
        return monotonic() - began_s

    return max(await asyncio.gather(*map(refused, range(COUNT))))


async def test_tokens_that_were_not_seen_before() -> None:
    silent = Silent()
    authenticator = Authenticator(lambda: cast("Any", silent))
    assert await longest(lambda number: authenticator.caller(b"token %d" % number)) < 2 * BOUND_S


async def test_dear_requests_of_one_caller() -> None:
    silent, lines = Silent(), DearQueues()

    async def ask(_: int) -> None:
        async with lines.place(("caller", "cloud", True), 2):
            await silent.call()

    assert await longest(ask) < 2 * BOUND_S


def read_of(lines: DearQueues, *, has_left: bool) -> Request:
    """Return a request that reads, whose caller is there still or not."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"} if has_left else await asyncio.Event().wait() or {}

    app = SimpleNamespace(state=SimpleNamespace(dear=lines))
    return Request({"type": "http", "method": "GET", "app": app, "state": {}, "path_params": {}}, receive)


async def test_nothing_is_read_for_who_went_away_while_waiting() -> None:
    lines, free, read = DearQueues(), asyncio.Event(), list[bool]()

    async def ask(*, has_left: bool) -> None:
        async with read_in_turn(read_of(lines, has_left=has_left)):
            read.append(has_left)
            await free.wait()

    first = [asyncio.create_task(ask(has_left=True)) for _ in range(2)]  # they do not wait, so nobody looks
    await asyncio.sleep(0)
    later = [asyncio.create_task(ask(has_left=number % 2 == 0)) for number in range(10)]
    await asyncio.sleep(0.1)
    assert read == [True, True]
    free.set()
    ends = await asyncio.gather(*first, *later, return_exceptions=True)
    assert read == [True, True, *[False] * 5]
    assert [type(one) for one in ends if one is not None] == [ClientDisconnect] * 5
