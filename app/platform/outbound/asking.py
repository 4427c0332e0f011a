"""Requests to services of other organisations, with answers in JSON: bounded in time and size, without redirects.

Each goes over a connection of its own to a checked address (`addresses`). The service that is asked is not trusted: its
answer is read no further than a bound, and what is no JSON object is no answer.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import h11
import httpx2

from app import __version__
from app.domain.errors import WebhookRefused
from app.platform.outbound.addresses import AddressRefused, read_url, resolve
from app.platform.outbound.connection import Destination, NoAnswer

_READ = 16 * 1024
_EVENTS_MAX = 4096
_CLOSING_S = 1.0
_RESOLVERS = 16
_LONGEST_NUMBER = 9


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request: `place` is the other service by name, `token` what proves who asks."""

    place: str
    method: str
    url: str
    token: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The status and the JSON object of an answer; it is empty where there is none.

    `retry_after_s`: when to ask again, if it says so in whole seconds.
    """

    status: int
    body: Mapping[str, Any]
    retry_after_s: int | None = None


class Asker:
    """Asks other services. `at_once`: the requests to one service under way; so a slow one costs others nothing."""

    def __init__(self, *, timeout_s: float, allow_private: bool, at_once: int, most_bytes: int) -> None:
        self._timeout_s, self._allow_private, self._most_bytes = timeout_s, allow_private, most_bytes
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve-peers")
        self._trusted = httpx2.create_ssl_context()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def ask(self, inquiry: Inquiry) -> Reply:
        """Return the answer. Raise NoAnswer if there is none in time that can be read."""
        async with self._places[inquiry.place]:
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._asked(inquiry)
            except TimeoutError as error:
                raise NoAnswer(f"no answer within {self._timeout_s:g} s") from error
            except (AddressRefused, WebhookRefused) as error:
                raise NoAnswer(str(error)) from error
            except (OSError, h11.RemoteProtocolError) as error:
                raise NoAnswer("no connection could be made, or what came over it was no HTTP") from error

    async def _asked(self, inquiry: Inquiry) -> Reply:
        target = read_url(inquiry.url, allow_private=self._allow_private)
        address = await resolve(target, self._resolvers, allow_private=self._allow_private)
        tls = self._trusted if target.scheme == "https" else None
        place = Destination(address, target.port, target.host, tls)
        body = b"" if inquiry.body is None else json.dumps(inquiry.body).encode()
        headers = {
            "host": target.authority,
            "user-agent": f"tenure/{__version__}",
            "accept": "application/json",
            "content-type": "application/json",
            "x-auth-token": inquiry.token,
            "content-length": str(len(body)),
            "connection": "close",
        }
        head = h11.Request(method=inquiry.method, target=target.path, headers=[*headers.items()])
        told, found = await _exchange(place, head, body, self._most_bytes)
        return Reply(told.status_code, _object(found), _retry_after_s(told))


async def _exchange(place: Destination, head: h11.Request, body: bytes, most: int) -> tuple[h11.Response, bytes]:
    reader, writer = await asyncio.open_connection(
        place.address, place.port, ssl=place.tls, server_hostname=None if place.tls is None else place.name
    )
    connection = h11.Connection(h11.CLIENT)
    try:
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        await writer.drain()
        return await _answer(reader, connection, most)
    finally:
        writer.transport.abort()
        with suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(_CLOSING_S):
                await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, connection: h11.Connection, most: int) -> tuple[h11.Response, bytes]:
    told, found, taken = h11.Response(status_code=500, headers=[]), bytearray(), 0
    for _ in range(_EVENTS_MAX):
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(_READ)
            taken += len(data)
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            told = event
        elif isinstance(event, h11.Data):
            found += event.data
        elif isinstance(event, h11.EndOfMessage):
            return told, bytes(found)
        elif not isinstance(event, h11.InformationalResponse):
            raise NoAnswer("the connection ended without an answer")
        if taken > most:
            raise NoAnswer(f"the answer has more than {most} bytes")
    raise NoAnswer("the answer comes in too many pieces")


def _retry_after_s(told: h11.Response) -> int | None:
    value = next((value for name, value in told.headers if name == b"retry-after"), b"")
    return int(value) if value.isdigit() and len(value) <= _LONGEST_NUMBER else None


def _object(found: bytes) -> Mapping[str, Any]:
    if not found:
        return {}
    try:
        read = json.loads(found)
    except ValueError as error:
        raise NoAnswer("the answer is no JSON") from error
    if not isinstance(read, dict):
        raise NoAnswer("the answer is no JSON object")
    return read
