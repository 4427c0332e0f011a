"""One connection to the service, with bounds on what uvicorn leaves open: time, heads, pipelining, how many there are.

Starlette sees a request only when its head is there. So a caller that sends a head or a body drop by drop, or takes its
answer so, is met here: nothing of this costs a request more than a flag.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.platform.http.addresses import Addresses
from app.platform.http.errors import (
    ConnectionsExhausted,
    HeadTooLarge,
    RequestError,
    RequestMalformed,
    RequestTooSlow,
    TargetTooLong,
    raw_answer,
)
from app.platform.turns import Rounds

MOST_WAITING = 16
"""Requests that wait on a connection for the answers before theirs; what comes after them is not read yet."""
MOST_HEADERS = 100
LONGEST_HEADER = 1 << 13
LONGEST_TARGET = 1 << 13
_HEAD_MAX = 1 << 16
_SHORTEST_REQUEST = 16
"""Bytes; so many are parsed for each request that may still wait, and there cannot be more requests in them."""
_BODY_PIECE = 1 << 16
_PARSE_S = 0.001
"""So long one connection's bytes are parsed at a time: a body in pieces of one byte takes long for its length."""
_MOST_UNWANTED = 1 << 21
"""Bytes that may still come in for a request that was answered before it was there; then its connection is closed."""
_PIECE_COST = 64
"""To take a piece of a body costs as much as so many bytes."""
_STATUS = b"HTTP/1.1 "
_LEAVE_S = 5.0
"""What was answered has this long to be taken when the service stops."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`timeout_s`: a request that is not there, or an answer that is not taken, after one to two times this is given
    up. `connections`: more than this are refused, and more than `of_one_address` of one. `long`: parsing that goes on.
    """

    timeout_s: float
    connections: int
    of_one_address: int
    addresses: Addresses
    long: Rounds = field(default_factory=Rounds)


class _Flow(FlowControl):
    """uvicorn's, which reads on whenever a request is answered: here, only when what was read has been parsed."""

    def __init__(self, transport: Transport, parse_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._parse_on = parse_on

    def resume_reading(self) -> None:
        """Have what was read parsed first."""
        if self.read_paused:
            self._parse_on()

    def read_on(self) -> None:
        """Read more."""
        super().resume_reading()


class _Joined:
    """What a connection's answers are written to: a head waits for the first of its body, and goes out with it.

    A write is a call of the kernel and may wake the reader: one for a small answer instead of two.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write it, soon where it is a head."""
        if data.startswith(_STATUS):
            self._head += data
            self._loop.call_soon(self._flush)
        else:
            head, self._head = self._head, b""
            self._transport.write(head + data if head else data)

    def close(self) -> None:
        """Close the connection when all is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class BoundedConnection(HttpToolsProtocol):
    """One connection. uvicorn makes it; the bounds come by `functools.partial`.

    What was read is parsed in pieces, so that never more than `MOST_WAITING` requests wait, however many came at once.
    """

    def __init__(
        self,
        bounds: Bounds,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = bounds
        self._watch: TimerHandle | None = None
        self._is_kept = False  # and counted
        self._is_whole = False  # what comes in is a whole request
        self._has_head = False
        self._head_bytes = 0
        self._unparsed = memoryview(b"")
        self._body_left = 0  # bytes, of a body that declares its length
        self._unwanted = 0  # bytes, of a body whose request was answered
        self._parses_on = False
        self._fault: RequestError | None = None
        self._was_partial = False  # when the watch looked last, and ever since
        self._was_stalled = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take the connection, if there is room for one more."""
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport, self._parse_soon)
        self._joined = _Joined(transport, self.loop)
        self._look_in(self._bounds.timeout_s)
        bounds, host = self._bounds, (self.client or (None,))[0]
        why = bounds.addresses.open(host, bounds.connections, bounds.of_one_address)
        self._is_kept = why is None
        if why is not None:
            self._refuse(ConnectionsExhausted(why))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._is_kept:
            self._bounds.addresses.close((self.client or (None,))[0])
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and read no more while some of it must wait."""
        if self.transport.is_closing():
            return
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        if not self._parse():
            self.flow.pause_reading()

    def _parse_soon(self) -> None:
        """Parse on when whoever asks for it is done: uvicorn is about to begin with the next request that waits."""
        if not self._parses_on:
            self._parses_on = True
            self.loop.call_soon(self._parse_on)

    def _parse_on(self) -> None:
        self._parses_on = False
        if self._parse() and not self.transport.is_closing():
            self._flow.read_on()

    def _parse(self) -> bool:
        """Parse what came, as far as there is room and time for it; whether all of it is parsed."""
        until = perf_counter() + _PARSE_S
        while self._unparsed and not self.transport.is_closing():
            if perf_counter() > until:
                self._bounds.long.add(self._parse_on)
                return False
            room = MOST_WAITING - len(self.pipeline)
            if room <= 0 or self._is_body_full():
                return False
            size = max(room * _SHORTEST_REQUEST, min(self._body_left, _BODY_PIECE))
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._parse_piece(piece)
        return not self._is_body_full()

    def _parse_piece(self, piece: memoryview) -> None:
        self._is_whole = False
        self._head_bytes += len(piece)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade:
            pass  # to what is asked for, this service does not; the request is answered as any other
        except HttpParserError:  # in the form of every error, and without uvicorn's line of log for each
            self._refuse(self._fault or RequestMalformed("this is not HTTP/1.1 as this service reads it"))
            return
        if not self._is_whole and self._head_bytes > _HEAD_MAX:
            self._refuse(HeadTooLarge("the request line and its headers are larger than this service takes"))

    def _is_body_full(self) -> bool:
        """Whether a handler must take some of the body first."""
        return self._has_head and not self.cycle.response_complete and len(self.cycle.body) > HIGH_WATER_LIMIT

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._body_left = self._unwanted = 0

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target is there."""
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            self._break_off(TargetTooLong(f"a path and its query take up to {LONGEST_TARGET} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is there, or a trailer."""
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            self._break_off(HeadTooLarge(f"a request has up to {MOST_HEADERS} headers"))
        if len(value) > LONGEST_HEADER:
            self._break_off(HeadTooLarge(f"a header takes up to {LONGEST_HEADER} bytes"))
        if self.headers[-1][0] == b"content-length":
            self._body_left = int(value)

    def on_headers_complete(self) -> None:
        """The head is there, and says where to."""
        super().on_headers_complete()
        self.cycle.transport = self._joined  # type: ignore[assignment]
        self._has_head, self._head_bytes = True, 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body is there; what comes between two of them, and trailers, count as a head does."""
        self._head_bytes = 0
        self._body_left -= len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._unwanted += _PIECE_COST + len(body)
            if self._unwanted > _MOST_UNWANTED:
                self._break_off(RequestMalformed("the body goes on long after its answer"))

    def on_message_complete(self) -> None:
        """The request is there."""
        self._is_whole, self._has_head, self._head_bytes, self._was_partial = True, False, 0, False
        super().on_message_complete()

    def resume_writing(self) -> None:
        """The caller takes its answer."""
        self._was_stalled = False
        super().resume_writing()

    def shutdown(self) -> None:
        """The service stops."""
        super().shutdown()
        if self.transport.is_closing():
            self._was_stalled = True
            self._look_in(min(_LEAVE_S, self._bounds.timeout_s))

    def _look_in(self, seconds: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Give up on what has not moved on since the last look; what is closed but not taken does not move either."""
        if self._was_stalled:
            self.transport.abort()
            return
        is_partial = not self._is_whole and not self._unparsed  # else it waits for answers of ours
        if self._was_partial and is_partial:
            self._refuse(RequestTooSlow(f"the request was not there after {self._bounds.timeout_s:g} s"))
        self._was_partial = is_partial
        self._was_stalled = self.flow.write_paused or self.transport.is_closing()
        self._look_in(self._bounds.timeout_s)

    def _break_off(self, fault: RequestError) -> None:
        """Parse no further."""
        self._fault = fault
        raise fault

    def _refuse(self, error: Exception) -> None:
        """Close the connection; with the error, where the next answer to be given is that to this request."""
        if not self.transport.is_closing() and self._is_next_answer():
            self.transport.write(raw_answer(error))
        self.transport.close()

    def _is_next_answer(self) -> bool:
        """Whether nothing was answered yet to what comes in, and all before it is."""
        if self._has_head:
            return not self.cycle.response_started and not self.pipeline
        return self.cycle is None or self.cycle.response_complete
