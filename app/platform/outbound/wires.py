"""Connections to other services that are kept for the next request, each for some seconds.

The other end may close one at any moment, and may send what it likes. A connection is kept only if request and answer
are both complete and nothing came after them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from time import monotonic

import h11

from app.platform.outbound.connection import Destination, NoAnswer

KEPT_S = 3.0
"""The time for which a connection is kept without a request; this service itself closes such ones after five."""
LONGEST_S = 60.0
"""The time after which a connection is not kept any more: then the name is resolved and its address checked anew."""
_READ = 16 * 1024
_EVENTS_MAX = 4096

WireKey = tuple[str, str, str, int]
"""Name of the service, scheme, host and port. No two services share a connection."""


class Wire:
    """A connection for one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)
        self.opened_s = monotonic()

    @classmethod
    async def open(cls, place: Destination) -> Wire:
        """Return a new connection. Raises OSError."""
        name = None if place.tls is None else place.name
        return cls(*await asyncio.open_connection(place.address, place.port, ssl=place.tls, server_hostname=name))

    async def exchange(self, head: h11.Request, body: bytes, most: int) -> tuple[h11.Response, bytes]:
        """Send a request, and return the answer with its body of at most `most` bytes.

        Raises NoAnswer, and OSError or RemoteProtocolError if the connection has ended or what came was no HTTP.
        """
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()
        return await self._answer(most)

    async def _answer(self, most: int) -> tuple[h11.Response, bytes]:
        told, found, taken = h11.Response(status_code=500, headers=[]), bytearray(), 0
        for _ in range(_EVENTS_MAX):
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(_READ)
                taken += len(data)
                self._http.receive_data(data)
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

    def is_free_again(self) -> bool:
        """Return True if another request may follow the last one, and be ready for it."""
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not is_done or self._http.trailing_data != (b"", False) or monotonic() - self.opened_s > LONGEST_S:
            return False
        self._http.start_next_cycle()
        return True

    def is_open(self) -> bool:
        """Return False once the other end is known to have closed it."""
        return not (self._reader.at_eof() or self._writer.transport.is_closing())

    def close(self) -> None:
        """End it at once."""
        self._writer.transport.abort()


class KeptWires:
    """The connections that wait for their next request."""

    def __init__(self) -> None:
        self._free: defaultdict[WireKey, dict[Wire, asyncio.TimerHandle]] = defaultdict(dict)

    def take(self, key: WireKey) -> Wire | None:
        """Return a connection that is kept for this service, the one that was used last; None if there is none."""
        free = self._free[key]
        while free:
            wire, ending = free.popitem()
            ending.cancel()
            if wire.is_open():
                return wire
            wire.close()
        del self._free[key]
        return None

    def keep(self, key: WireKey, wire: Wire) -> None:
        """Keep a connection for its next request, or close it."""
        if wire.is_free_again():
            self._free[key][wire] = asyncio.get_running_loop().call_later(KEPT_S, self._end, key, wire)
        else:
            wire.close()

    def close(self) -> None:
        """Close all."""
        for free in self._free.values():
            for wire, ending in free.items():
                ending.cancel()
                wire.close()
        self._free.clear()

    def _end(self, key: WireKey, wire: Wire) -> None:
        del self._free[key][wire]
        wire.close()
