"""Streams that end by themselves while their token is checked, and streams that are broken off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.platform.http import streams
from app.platform.http.streams import send_while

pytestmark = pytest.mark.anyio


class Stream:
    """A stream that ends when it is told to, and what was sent."""

    def __init__(self) -> None:
        self.is_over, self.sent = asyncio.Event(), []

    async def sending(self) -> None:
        await self.is_over.wait()
        self.sent.append(b"end")

    async def send(self, message: Any) -> None:
        self.sent.append(message["body"])

    async def lost(self) -> None:
        """The database is gone, and the stream that reads it sees so first."""
        self.is_over.set()
        await asyncio.sleep(0.01)
        raise ConnectionError


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_CHECK_S", 0.01)


async def test_nothing_is_sent_after_a_stream_that_ended_while_its_token_was_checked() -> None:
    stream = Stream()
    await send_while(stream.lost, stream.sending(), stream.send, b"farewell")
    assert stream.sent == [b"end"]


async def test_nothing_is_sent_after_a_stream_that_comes_to_its_end_when_it_is_broken_off() -> None:
    stream = Stream()

    async def sending() -> None:
        try:
            await stream.sending()
        except asyncio.CancelledError:
            stream.sent.append(b"end")

    async def revoked() -> None:
        raise PermissionError

    await send_while(revoked, sending(), stream.send, b"farewell")
    assert stream.sent == [b"end"]


async def test_a_stream_whose_token_is_revoked_is_told_farewell() -> None:
    stream = Stream()

    async def revoked() -> None:
        raise PermissionError

    await send_while(revoked, stream.sending(), stream.send, b"farewell")
    assert stream.sent == [b"farewell"]
