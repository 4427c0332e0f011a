"""Connections that are many, slow, or short."""

from __future__ import annotations

import asyncio

from hostile.target import Target, attack
from hostile.wire import Wire, request

_EXHAUSTED = "connections.exhausted"
_ADDRESSES = 4
_APART_S = 0.5


@attack("nobody", _EXHAUSTED)
async def idle_connections(target: Target) -> None:
    """More idle connections than there are places, from four addresses."""
    await _hold(target, 1200, b"")


@attack("nobody", _EXHAUSTED)
async def slow_heads(target: Target) -> None:
    """More heads than there are places, each of which comes a byte at a time."""
    await _hold(target, 1200, b"GET / HTTP/1.1\r\nHost: tenure\r\n", b"X")


@attack("member", _EXHAUSTED)
async def slow_bodies(target: Target) -> None:
    """Hundreds of bodies that come a little at a time."""
    head = request("POST", "/v1/clouds/target/batch", target.tokens["member"], None, "Content-Length: 1000000")
    typed = head.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n")
    await _hold(target, 600, typed, b" " * 200)


@attack("nobody", _EXHAUSTED)
async def connections_that_come_and_go(target: Target) -> None:
    """Connections as fast as they are taken, each closed at once."""

    async def come_and_go(_: int) -> None:
        for number in range(1_000_000):
            wire = await target.open(f"{target.address}{number % _ADDRESSES}")
            if number % 2:
                wire.writer.transport.abort()
            target.counts["came and went"] += 1
            wire.close()

    await target.each(8, come_and_go)


@attack("reader", _EXHAUSTED)
async def dropped_connections(target: Target) -> None:
    """Sixteen requests on each connection, which is dropped at once."""
    asked = request("GET", "/v1/clouds/target/instances/never", target.tokens["reader"]) * 16

    async def drop(_: int) -> None:
        while True:
            wire = await target.open()
            await wire.send(asked)
            await asyncio.sleep(0.01)
            wire.writer.transport.abort()
            target.counts["dropped"] += 1

    await target.each(40, drop)


@attack("reader", _EXHAUSTED)
async def slow_readers(target: Target) -> None:
    """Great answers that nobody takes, sixteen on each of a hundred connections."""
    page = request("GET", "/v1/clouds/target/events?limit=1000", target.tokens["reader"])

    async def leave(_: int) -> None:
        wire = await target.open(room=1024)
        try:
            await wire.send(page * 16)
            await asyncio.sleep(0.5)
            target.counts["not taken"] += 1
            await asyncio.Event().wait()
        finally:
            wire.close()

    await target.each(100, leave)


async def _hold(target: Target, count: int, head: bytes, drop: bytes = b"") -> None:
    """Keep so many connections, with a head on each, and then a drop every half second."""

    async def hold(number: int) -> None:
        wire = await target.open(f"{target.address}{number % _ADDRESSES}")
        try:
            await wire.send(head)
            target.counts["held"] += 1
            while True:
                await _let_go(target, wire)
                await wire.send(drop)
        finally:
            wire.close()

    await target.each(count, hold)


async def _let_go(target: Target, wire: Wire) -> None:
    """Wait half a second for an answer; EOFError after one."""
    try:
        async with asyncio.timeout(_APART_S):
            target.tally(await wire.answer())
    except TimeoutError:
        return
    raise EOFError
