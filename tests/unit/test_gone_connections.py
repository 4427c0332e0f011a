"""A connection that is gone takes with it what waits on it, and has its place until its last request has ended."""

from __future__ import annotations

import asyncio
import gc
from functools import partial

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from app.platform.http import connection
from app.platform.http.addresses import Addresses
from app.platform.http.connection import MOST_WAITING, BoundedConnection, ConnectionLimits

pytestmark = pytest.mark.anyio

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_S = 10.0


async def test_what_waits_on_a_connection_that_is_gone_is_given_up_and_its_place_is_kept():
    may_end, begun, gone = asyncio.Event(), asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        await receive()
        begun.release()
        assert (await receive())["type"] == "http.disconnect"
        gone.release()
        await may_end.wait()

    addresses, loop = Addresses(), asyncio.get_running_loop()
    limits, state = ConnectionLimits(60.0, 100, 2, addresses), ServerState()
    made = partial(BoundedConnection, limits, Config(app), state, {})
    server = await loop.create_server(made, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(ASKED * MOST_WAITING)
            async with asyncio.timeout(PATIENCE_S):
                await begun.acquire()
                writer.transport.abort()
                await gone.acquire()
        assert addresses.open(host, 100, 2) is not None, "the places of the two are taken"
        assert alive(RequestResponseCycle) <= 4, "those under way, and the last ones of those that waited"
        may_end.set()
        await asyncio.wait(state.tasks, timeout=PATIENCE_S)
        await asyncio.sleep(0.1)
        assert addresses.open(host, 100, 1) is None
        assert alive(BoundedConnection) == alive(RequestResponseCycle) == 0, "without the collector"
    finally:
        gc.enable()
        server.close()


async def test_the_place_is_kept_for_some_seconds_at_most(monkeypatch: pytest.MonkeyPatch):
    """A start that waits for its table waits for minutes, and its address would be locked out."""
    monkeypatch.setattr(connection, "LONGEST_KEPT_S", 0.2)
    may_end, begun = asyncio.Event(), asyncio.Event()

    async def app(_: Scope, __: Receive, ___: Send) -> None:
        begun.set()
        await may_end.wait()

    addresses, loop, state = Addresses(), asyncio.get_running_loop(), ServerState()
    made = partial(BoundedConnection, ConnectionLimits(60.0, 100, 2, addresses), Config(app), state, {})
    server = await loop.create_server(made, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        _, writer = await asyncio.open_connection(host, port)
        writer.write(ASKED)
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
            writer.transport.abort()
            await asyncio.sleep(0.1)
            assert addresses.open(host, 100, 1) is not None
            await asyncio.sleep(1)
            assert addresses.open(host, 100, 1) is None
            addresses.close(host)
            may_end.set()
            await asyncio.wait(state.tasks)
            assert [addresses.open(host, 100, 2) for _ in range(3)][:2] == [None, None], "given back once"
            assert addresses.open(host, 100, 2) is not None
    finally:
        server.close()


def alive(kind: type) -> int:
    """Count objects of a kind."""
    return sum(type(one) is kind for one in gc.get_objects())
