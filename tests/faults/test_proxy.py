"""The proxy's rules, on real sockets with a server that answers each line with the same line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from faults.proxy import Link

pytestmark = pytest.mark.anyio

_SOON_S = 0.3


@dataclass
class Line:
    """A connection through the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, text: bytes) -> bytes | None:
        """Send a line and return what comes back; None if nothing does, empty if the connection is gone."""
        self.writer.write(text + b"\n")
        return await self.hear()

    async def hear(self) -> bytes | None:
        try:
            return (await asyncio.wait_for(self.reader.readline(), _SOON_S)).strip()
        except TimeoutError:
            return None
        except ConnectionError:
            return b""


@dataclass
class Room:
    """A proxy's link before a server that hears and answers."""

    link: Link
    port: int
    heard: list[bytes]

    async def connect(self) -> Line:
        return Line(*await asyncio.open_connection("127.0.0.1", self.port))


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line.strip())
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    link = Link("one", server.sockets[0].getsockname()[1])
    try:
        yield Room(link, await link.listen(), heard)
    finally:
        link.obey({"rule": "refuse"})
        server.close()
        await asyncio.sleep(0.05)


async def test_without_a_rule_everything_passes() -> None:
    async with room() as here:
        line = await here.connect()
        assert await line.say(b"hello") == b"hello"


async def test_who_listens_is_deafened_and_others_are_not() -> None:
    async with room() as here:
        listener, other = await here.connect(), await here.connect()
        assert await listener.say(b"LISTEN tenure") == b"LISTEN tenure"
        assert await other.say(b"hello") == b"hello"
        here.link.obey({"rule": "deafen"})
        assert await listener.say(b"still there?") is None
        assert await other.say(b"hello") == b"hello"
        assert await (await here.connect()).say(b"LISTEN tenure") == b"LISTEN tenure", "who comes anew hears"
        here.link.obey({"rule": "pass"})
        assert await listener.hear() == b"", "what it missed is lost, so it is reset"


async def test_a_cut_resets_every_connection_and_takes_new_ones() -> None:
    async with room() as here:
        line = await here.connect()
        await line.say(b"hello")
        here.link.obey({"rule": "cut"})
        assert await line.hear() == b""
        assert await (await here.connect()).say(b"again") == b"again"


async def test_swallowed_answers_were_asked_for_and_the_connection_is_reset_when_the_rule_is_lifted() -> None:
    async with room() as here:
        line = await here.connect()
        here.link.obey({"rule": "swallow"})
        assert await line.say(b"commit") is None
        assert here.heard == [b"commit"]
        here.link.obey({"rule": "pass"})
        assert await line.hear() == b""


async def test_one_swallowed_answer_resets_its_connection_at_once() -> None:
    async with room() as here:
        line = await here.connect()
        here.link.obey({"rule": "swallow_once", "count": 1})
        assert await line.say(b"commit") == b""
        assert here.heard == [b"commit"]
        assert await (await here.connect()).say(b"again") == b"again"


async def test_a_stalled_direction_holds_everything_and_loses_nothing() -> None:
    async with room() as here:
        line = await here.connect()
        here.link.obey({"rule": "stall", "direction": "asked"})
        assert await line.say(b"later") is None
        assert here.heard == []
        here.link.obey({"rule": "pass"})
        assert await line.hear() == b"later"


async def test_a_vanished_host_is_silent_both_ways_and_for_new_connections() -> None:
    async with room() as here:
        line = await here.connect()
        await line.say(b"hello")
        here.link.obey({"rule": "vanish"})
        assert await line.say(b"anybody?") is None
        assert await (await here.connect()).say(b"nobody?") is None
        assert here.heard == [b"hello"]
        here.link.obey({"rule": "pass"})
        assert await line.hear() == b""


async def test_a_half_closed_connection_still_carries_the_other_direction() -> None:
    async with room() as here:
        line = await here.connect()
        await line.say(b"hello")
        here.link.obey({"rule": "half_close", "towards_process": True})
        assert await line.say(b"still there") == b""
        await asyncio.sleep(0.05)
        assert here.heard == [b"hello", b"still there"]


async def test_a_delay_is_a_delay() -> None:
    async with room() as here:
        line = await here.connect()
        here.link.obey({"rule": "delay", "delay_s": 0.1})
        began = asyncio.get_running_loop().time()
        assert await line.say(b"slow") == b"slow"
        assert asyncio.get_running_loop().time() - began >= 0.2
