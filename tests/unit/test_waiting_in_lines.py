"""Requests in a line before a database that does not answer wait for one bound, not for the sum of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, cast

import pytest

from app.domain.errors import LogUnavailable
from app.platform.asked import one_bound
from app.platform.database.bounds import Bounds
from app.platform.http.auth import Authenticator
from app.platform.http.dear import DearQueues

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
