"""Broken requests are refused after all that came before them is answered: it may have been decided."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.platform.http.addresses import Addresses
from app.platform.http.connection import BoundedConnection, ConnectionLimits

pytestmark = pytest.mark.anyio

PATIENCE_S = 10.0
ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POSTED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 49\r\n\r\n" + b"x" * 49
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN = b'"}'


class Slow:
    """Answers each request after a moment, and counts them."""

    def __init__(self, status: int = 200, delay_s: float = 0.05) -> None:
        self.status, self.delay_s, self.asked = status, delay_s, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(self.delay_s)
        body = b"" if self.status == 204 else b"done"
        headers = [] if self.status == 204 else [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(app: Slow, timeout_s: float = 60.0) -> AsyncIterator[int]:
    limits = ConnectionLimits(timeout_s, 100, 100, Addresses())
    made = partial(BoundedConnection, limits, Config(app), ServerState(), {})
    server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def answers(port: int, sent: bytes, later: bytes = b"") -> list[int]:
    """Return the statuses of all answers to what is sent, in one segment or two, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    if later:
        await asyncio.sleep(0.1)
        writer.write(later)
    async with asyncio.timeout(PATIENCE_S):
        found = await reader.read()
    writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", found)]


@pytest.mark.parametrize(
    ("sent", "statuses", "asked"),
    [
        (ASKED + BROKEN, [200, 400], 1),
        (POSTED + BROKEN, [200, 400], 1),
        (POSTED + BROKEN + ASKED * 3, [200, 400], 1),
        (ASKED * 5 + BROKEN, [200] * 5 + [400], 5),
        (ASKED + ASKED.replace(b"Host: x\r\n", b""), [200, 400], 1),
        (ASKED + CHUNKED + b"zz\r\n", [200, 400], 1),
        (ASKED + POSTED + CHUNKED + b"3\r\nabcXX", [200, 200, 400], 2),
        (ASKED + b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 9000 + b"\r\n\r\n", [200, 431], 1),
        (ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + BROKEN, [200], 1),
        (BROKEN + ASKED, [400], 0),
        (CHUNKED + b"zz\r\n" + ASKED, [400], 1),
    ],
)
async def test_all_that_came_before_it_is_answered(sent: bytes, statuses: list[int], asked: int) -> None:
    app = Slow()
    async with served(app) as port:
        assert await answers(port, sent) == statuses
    assert app.asked == asked


async def test_an_answer_without_a_body_goes_out_before_the_refusal() -> None:
    async with served(Slow(204)) as port:
        assert await answers(port, ASKED + BROKEN) == [204, 400]


async def test_a_request_that_does_not_come_leaves_the_one_before_it_its_answer() -> None:
    """A start may wait for its table for minutes, and half of the next request is there meanwhile."""
    async with served(Slow(delay_s=1.0), timeout_s=0.2) as port:
        assert await answers(port, ASKED, ASKED[:9]) == [200, 408]
