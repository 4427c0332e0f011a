"""One request over a new connection to a checked address, with the answer read no further than its status.

The receiver is not trusted. What precedes the status is bounded in bytes and in informational answers, so reading it
is cheap however fast it comes. The caller bounds the time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import h11

_HEAD_MAX = 64 * 1024
INFORMATIONAL_MAX = 16
_READ = 16 * 1024
_CLOSING_S = 1.0


class NoAnswer(Exception):
    """The receiver could not be reached, or its answer could not be read. The message does not reveal its address."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a connection: an address, and with `tls` the name that its certificate must prove."""

    address: str
    port: int
    name: str
    tls: ssl.SSLContext | None


async def status_of(place: Destination, path: str, headers: Mapping[str, str], body: bytes) -> int:
    """Send a POST and return the status of the answer. Raise NoAnswer if there is none that can be read."""
    try:
        name = None if place.tls is None else place.name
        reader, writer = await asyncio.open_connection(place.address, place.port, ssl=place.tls, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        raise NoAnswer(f"its certificate is not good: {error.verify_message}") from error
    except OSError as error:
        raise NoAnswer("no connection could be made") from error
    try:
        return await _ask(reader, writer, path, headers, body)
    except (OSError, h11.RemoteProtocolError) as error:
        raise NoAnswer("the connection ended, or what came over it was no HTTP") from error
    finally:
        writer.transport.abort()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await writer.wait_closed()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, headers: Mapping[str, str], body: bytes
) -> int:
    connection = h11.Connection(h11.CLIENT)
    length = {"content-length": str(len(body)), "connection": "close"}
    head = h11.Request(method="POST", target=path, headers=list({**headers, **length}.items()))
    for event in (head, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    sending = asyncio.ensure_future(writer.drain())
    try:
        return await _status(reader, connection)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _status(reader: asyncio.StreamReader, connection: h11.Connection) -> int:
    """Read up to the status. Receivers may answer before they have taken the whole request."""
    taken = informational = 0
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            return event.status_code
        if event is h11.NEED_DATA:
            data = await reader.read(_READ)
            taken += len(data)
            connection.receive_data(data)
        elif isinstance(event, h11.InformationalResponse):
            informational += 1
        else:
            raise NoAnswer("the receiver ended the connection without an answer")
        if taken > _HEAD_MAX or informational > INFORMATIONAL_MAX:
            raise NoAnswer("the receiver sends on and on before its answer")
