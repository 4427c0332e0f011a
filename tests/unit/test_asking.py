"""Requests to other services over connections that are kept, with servers that close them, or send what they like."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.platform.outbound import wires
from app.platform.outbound.asking import Asker, Inquiry
from app.platform.outbound.connection import NoAnswer

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SAID = b'{"word": "held"}'


def answered(body: bytes = SAID, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), headers, body)


class Server:
    """A server that gives each request on a connection the next of its answers, and then closes it."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.connections, self.requests, self.port = answers, 0, 0, 0
        self.open: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self.open:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.append(writer)
        for answer in self.answers:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests += 1
            writer.write(answer)
        writer.close()


async def ask(asker: Asker, server: Server, place: str = "b") -> str:
    return str((await asker.ask(Inquiry(place, "GET", f"http://127.0.0.1:{server.port}/v1", "t"))).body["word"])


def an_asker() -> Asker:
    return Asker(timeout_s=5, allow_private=True, at_once=4, most_bytes=1000)


def test_requests_follow_each_other_on_a_connection_and_peers_share_none() -> None:
    async def main() -> None:
        async with Server(*[answered()] * 9).listening() as server, an_asker() as asker:
            assert [await ask(asker, server) for _ in range(3)] == ["held"] * 3
            assert server.connections == 1
            await ask(asker, server, "c")
            assert server.connections == 2
            await asyncio.gather(*(ask(asker, server) for _ in range(8)))
            assert server.connections <= 5, "as many as may be asked at once"

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answered(headers=b"Connection: close\r\n"), id="it says that it closes"),
        pytest.param(answered() + b"HTTP/1.1 200 OK\r\n", id="it says more than it was asked"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 16\r\n\r\n" + SAID, id="it is of the first version"),
    ],
)
def test_a_connection_is_not_kept_if(answer: bytes) -> None:
    async def main() -> None:
        async with Server(*[answer] * 3).listening() as server, an_asker() as asker:
            assert [await ask(asker, server) for _ in range(3)] == ["held"] * 3
            assert server.connections == 3

    asyncio.run(main())


def test_who_closes_a_kept_connection_is_asked_again() -> None:
    async def main() -> None:
        async with Server(answered(), b"").listening() as server, an_asker() as asker:
            assert [await ask(asker, server) for _ in range(3)] == ["held"] * 3
            assert server.connections == 3
            assert server.requests >= 3

    asyncio.run(main())


def test_an_answer_that_is_too_deep_is_none() -> None:
    async def main() -> None:
        deep = Server(answered(b"[" * 60_000))
        async with deep.listening(), Asker(timeout_s=5, allow_private=True, at_once=1, most_bytes=65_536) as asker:
            with pytest.raises(NoAnswer, match="no JSON"):
                await ask(asker, deep)

    asyncio.run(main())


def test_an_answer_that_is_too_long_is_none_and_ends_the_connection() -> None:
    async def main() -> None:
        async with Server(answered(), answered(b" " * 2000)).listening() as server, an_asker() as asker:
            assert await ask(asker, server) == "held"
            with pytest.raises(NoAnswer, match="more than 1000 bytes"):
                await ask(asker, server)
            assert (server.connections, server.requests) == (1, 2), "it is not asked a third time"
            assert await ask(asker, server) == "held"
            assert server.connections == 2

    asyncio.run(main())


def test_a_connection_is_kept_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "KEPT_S", 0.05)

    async def main() -> None:
        async with Server(*[answered()] * 9).listening() as server, an_asker() as asker:
            await ask(asker, server)
            await asyncio.sleep(0.2)
            await ask(asker, server)
            assert server.connections == 2
            monkeypatch.setattr(wires, "LONGEST_S", 0.0)
            await ask(asker, server)
            await ask(asker, server)
            assert server.connections == 3

    asyncio.run(main())


@pytest.mark.anyio
async def test_names_that_nobody_resolves_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is looked up once at a time, for all who ask for it."""
    names, hangs, found = list[str](), threading.Event(), socket.getaddrinfo

    def look_up(name: str, *parts: Any, **named: Any) -> Any:
        if not name.startswith("hangs"):
            return found(name, *parts, **named)
        names.append(name)
        hangs.wait(30)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with Server(answered()).listening() as server, an_asker() as asker:
        lost = [
            Inquiry(f"p{number % 40}", "GET", f"http://hangs{number % 40}.example/v1", "t") for number in range(160)
        ]
        waiting = [asyncio.create_task(asker.ask(one)) for one in lost]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(3):
            assert await ask(asker, server, "healthy") == "held"
        hangs.set()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(end, NoAnswer) for end in ends)
    assert len(names) == 40
