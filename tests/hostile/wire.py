"""HTTP by hand over a socket: attackers send what no good client would, and must cost less than what they attack."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_CODE = re.compile(rb'"code": ?"(?:preemptible\.)?([a-z_.]+)"')
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_WITHOUT_BODY = (b"204", b"304")
_ROOM = 1 << 26

Closed = (OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""Errors that the end of a connection looks like, whoever ended it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its status, its error code without the common prefix, and its body."""

    status: int
    code: str
    body: bytes

    @property
    def told(self) -> str:
        """The status with the code, as tallies count it."""
        return f"{self.status} {self.code}".rstrip()


class Wire:
    """One connection to the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, source: str = "127.0.0.1", room: int = _ROOM) -> Wire:
        """Connect from an address of the loopback network; `room`: bytes that are taken before anybody reads them."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), limit=room))

    async def send(self, content: bytes) -> None:
        """Send it; waits where the service does not take it."""
        self.writer.write(content)
        await self.writer.drain()

    async def ask(self, content: bytes) -> Answer:
        """Send a request and read its answer."""
        await self.send(content)
        return await self.answer()

    async def answer(self) -> Answer:
        """Read the next answer, whole."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = head[9:12]
        if status in _WITHOUT_BODY:
            return Answer(int(status), "", b"")
        length = _LENGTH.search(head)
        body = await self.reader.readexactly(int(length[1])) if length else await self._chunks()
        code = _CODE.search(body) if status >= b"400" else None
        return Answer(int(status), code[1].decode() if code else "", body)

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)

    def close(self) -> None:
        """Let go of it."""
        with suppress(*Closed):
            self.writer.close()


def request(method: str, target: str, token: str | None = None, body: Any = None, *headers: str) -> bytes:
    """A request as bytes. `body` is sent as it is where it is bytes, else as JSON."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "Host: tenure", *headers]
    if token is not None:
        lines.append(f"X-Auth-Token: {token}")
    if content:
        lines.append(f"Content-Length: {len(content)}")
        if not any(line.lower().startswith("content-type") for line in headers):
            lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + content
