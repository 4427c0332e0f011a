"""One connection to the service, with limits that uvicorn lacks: on time, heads, pipelining and connections.

Starlette sees a request only after its head has arrived. So callers that send a head or a body drop by drop, or take
their answer that way, are handled here. All of it costs a request no more than setting a flag.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Task, TimerHandle, Transport
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.platform.http.addresses import Addresses, place_of
from app.platform.http.errors import (
    ConnectionsExhausted,
    HeadTooLarge,
    RequestError,
    RequestMalformed,
    RequestTooSlow,
    TargetTooLong,
    raw_answer,
)
from app.platform.http.joined import Joined
from app.platform.http.passes import Passes
from app.platform.turns import Rounds

MOST_WAITING = 16
"""The number of requests that may wait on a connection for earlier answers; further ones are not read yet."""
LONGEST_KEPT_S = 10.0
"""A request whose caller is gone counts for its address so long; one that waits for a table goes on for minutes."""
MOST_HEADERS = 100
LONGEST_HEADER = 1 << 13
LONGEST_TARGET = 1 << 13
_HEAD_MAX = 1 << 16
_SHORTEST_REQUEST = 16
"""The length in bytes of the shortest possible request. It bounds the number of requests in a piece to parse."""
_BODY_PIECE = 1 << 16
_PARSE_S = 0.001
"""The time for which the input of one connection is parsed at once; a body in pieces of one byte takes long."""
_MOST_UNWANTED = 1 << 23
"""The number of bytes of a body that are read after its answer, before the connection is closed."""
_PIECE_COST = 256
"""The number of bytes that one piece of a body counts as, beside its own."""
_LEAVE_S = 5.0
"""The time that callers have to take their answers when the service stops."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`timeout_s`: requests that do not arrive, and answers that are not taken, are given up after one to two times
    this.

    `connections`: connections beyond this are refused, and those beyond `of_one_address` from one address.
    `parsing` holds the connections that have more to parse than they may at once, `passes` those of callers who
    began as many requests as they may in this pass of the loop.
    """

    timeout_s: float
    connections: int
    of_one_address: int
    addresses: Addresses
    parsing: Rounds = field(default_factory=Rounds)
    passes: Passes = field(default_factory=Passes)


class _Flow(FlowControl):
    """uvicorn's flow control, which here resumes reading only when everything read has been parsed."""

    def __init__(self, transport: Transport, parse_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._parse_on = parse_on

    def resume_reading(self) -> None:
        """Parse what was read before reading more."""
        if self.read_paused:
            self._parse_on()

    def read_on(self) -> None:
        """Read more."""
        super().resume_reading()

    def end(self) -> None:
        """Let go of the connection, which is gone."""
        self._parse_on = _nothing


def _nothing() -> None:
    """Take the place of a connection that is gone."""


class BoundedConnection(HttpToolsProtocol):
    """One connection, made by uvicorn. The limits come by `functools.partial`.

    Input is parsed in pieces, so that never more than `MOST_WAITING` requests wait, however many arrived at once. A
    connection that is gone has its place until its request under way has ended, for LONGEST_KEPT_S at most; those that
    wait end with it.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._watch: TimerHandle | None = None
        self._is_kept = False  # and counted
        self._is_whole = False  # the incoming request has arrived in full
        self._has_head = False
        self._head_bytes = 0
        self._running: RequestResponseCycle | None = None  # the request under way, or the last one
        self._task: Task[None] | None = None
        self._giving: TimerHandle | None = None  # when its place is given back at the latest, once it is gone
        self._unparsed = memoryview(b"")
        self._body_left = 0  # bytes left, of a body that declares its length
        self._hosts = 0
        self._unwanted = 0  # bytes of a body that came after the answer
        self._parses_on = False
        self._fault: RequestError | None = None
        self._refusal: bytes | None = None  # the last answer of the connection, once it reads no more
        self._was_partial = False  # at the last look of the watch, and ever since
        self._was_stalled = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take the connection, if there is room for one more."""
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport, self._parse_soon)
        self._joined = Joined(transport, self.loop)
        self._look_in(self._limits.timeout_s)
        limits, host = self._limits, (self.client or (None,))[0]
        why = limits.addresses.open(host, limits.connections, limits.of_one_address)
        self._is_kept = why is None
        self._caller: Hashable = place_of(host)
        if why is not None:
            self._refuse(ConnectionsExhausted(why))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and the requests that wait on it.

        All that refers back to it is cut: the collector would find many thousands of dead ones too late.
        """
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for waiting, _ in self.pipeline:
            waiting.on_response = _nothing
        self.pipeline.clear()
        self._flow.end()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        if self._task is None or self._task.done():
            self._give_place()
        else:
            self._giving = self.loop.call_later(LONGEST_KEPT_S, self._give_place)
            self._task.add_done_callback(self._give_place)

    def _give_place(self, _: object = None) -> None:
        if self._giving is not None:
            self._giving.cancel()
        if self._is_kept:
            self._is_kept = False
            self._limits.addresses.close((self.client or (None,))[0])

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin to answer a request; its task is known, as uvicorn does not let it be."""
        self._running = cycle
        self._task = self.loop.create_task(cycle.run_asgi(app))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    def data_received(self, data: bytes) -> None:
        """Take the data, and stop reading while some of it must wait."""
        if self.transport.is_closing() or self._refusal is not None:
            return
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        if not self._limits.passes.may(self._caller):
            self._unset_keepalive_if_required()
            self.flow.pause_reading()
            self._limits.passes.wait(self._caller, self._parse_on)
        elif not self._parse():
            self.flow.pause_reading()

    def _parse_soon(self) -> None:
        """Continue parsing in the next turn of the loop, because uvicorn is about to start the next waiting request."""
        if not self._parses_on:
            self._parses_on = True
            self.loop.call_soon(self._parse_on)

    def _parse_on(self) -> None:
        self._parses_on = False
        if not self.transport.is_closing() and self._parse() and not self.transport.is_closing():
            self._flow.read_on()

    def _parse(self) -> bool:
        """Parse the input as far as there is room and time for it, and return True if all of it is parsed."""
        until = perf_counter() + _PARSE_S
        while self._unparsed and not self.transport.is_closing():
            if perf_counter() > until:
                self._limits.parsing.add(self._parse_on)
                return False
            room = MOST_WAITING - len(self.pipeline)
            if room <= 0 or self._is_body_full():
                return False
            size = max(room * _SHORTEST_REQUEST, min(self._body_left, _BODY_PIECE))
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._parse_piece(piece)
        return self._refusal is None and not self._is_body_full()

    def _parse_piece(self, piece: memoryview) -> None:
        self._is_whole = False
        self._head_bytes += len(piece)
        self._unset_keepalive_if_required()
        try:
            self._feed(piece)
        except HttpParserError:  # answered in the form of every error, without uvicorn's line of log
            self._refuse(self._fault or RequestMalformed("this is not HTTP/1.1 as this service reads it"))
            return
        if not self._is_whole and self._head_bytes > _HEAD_MAX:
            self._refuse(HeadTooLarge("the request line and its headers are larger than this service takes"))

    def _feed(self, piece: memoryview) -> None:
        """Feed the parser. An upgrade to another protocol that a request asks for is ignored, as HTTP allows.

        The parser takes all that follows for the other protocol, so its head is read again without that header.
        """
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade as upgrade:
            self._unparsed = memoryview(bytes(piece[upgrade.args[0] :]) + bytes(self._unparsed))
            if self._asks_for_upgrade():
                lines = [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
                first = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
                self.parser = HttpRequestParser(self)
                self.parser.feed_data(b"\r\n".join([first, *lines, b"", b""]))

    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _is_body_full(self) -> bool:
        """Return True if the handler must read some of the body first."""
        return self._has_head and not self.cycle.response_complete and len(self.cycle.body) > HIGH_WATER_LIMIT

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
        self._body_left = self._unwanted = self._hosts = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request's target."""
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            self._break_off(TargetTooLong(f"a path and its query take up to {LONGEST_TARGET} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What comes after a body is passed over: it may not name a caller, nor change the request."""
        if self._has_head:
            return
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            self._break_off(HeadTooLarge(f"a request has up to {MOST_HEADERS} headers"))
        if len(value) > LONGEST_HEADER:
            self._break_off(HeadTooLarge(f"a header takes up to {LONGEST_HEADER} bytes"))
        known = self.headers[-1][0]
        if known == b"content-length":
            self._body_left = int(value)
        elif known == b"host":
            self._hosts += 1
            if self._hosts > 1:
                self._break_off(RequestMalformed("a request names one host"))

    def on_headers_complete(self) -> None:
        """Take the complete head. Its answer goes through the joined transport."""
        if self._asks_for_upgrade():
            return
        if not self._hosts and self.parser.get_http_version() == "1.1":  # probes that speak 1.0 name none
            self._break_off(RequestMalformed("a request of HTTP/1.1 names its host"))
        super().on_headers_complete()
        self.cycle.transport = self._joined  # type: ignore[assignment]
        self._has_head, self._head_bytes = True, 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body. Bytes between pieces, and trailers, count as part of a head."""
        self._head_bytes = 0
        self._body_left -= len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._unwanted += _PIECE_COST + len(body)
            if self._unwanted > _MOST_UNWANTED:
                self._break_off(RequestMalformed("the body goes on long after its answer"))

    def on_message_complete(self) -> None:
        """Note that the request has arrived in full."""
        if self._asks_for_upgrade():
            return
        self._is_whole, self._has_head, self._head_bytes, self._was_partial = True, False, 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next request that waits on this connection, when it is its caller's turn."""
        assert self._running is not None
        caller = self._running.scope["state"].get("caller")
        if caller is not None:
            self._caller = caller.id
        if not self.pipeline or self._limits.passes.may(self._caller):
            super().on_response_complete()
        else:
            self._limits.passes.wait(self._caller, super().on_response_complete)
        if self._refusal is not None and not self._is_answering():
            self._end(self._refusal)

    def resume_writing(self) -> None:
        """Note that the caller takes its answer."""
        self._was_stalled = False
        super().resume_writing()

    def shutdown(self) -> None:
        """Close the connection because the service stops."""
        super().shutdown()
        if self.transport.is_closing():
            self._was_stalled = True
            self._look_in(min(_LEAVE_S, self._limits.timeout_s))

    def _look_in(self, seconds: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Give up a request or an answer without progress since the last look, also on a closing connection."""
        if self._was_stalled:
            self.transport.abort()
            return
        is_partial = not self._is_whole and not self._unparsed  # otherwise the request waits for answers of ours
        if self._was_partial and is_partial:
            self._refuse(RequestTooSlow(f"the request was not there after {self._limits.timeout_s:g} s"))
        self._was_partial = is_partial
        self._was_stalled = self.flow.write_paused or self.transport.is_closing()
        self._look_in(self._limits.timeout_s)

    def _break_off(self, fault: RequestError) -> None:
        """Stop parsing."""
        self._fault = fault
        raise fault

    def _refuse(self, error: Exception) -> None:
        """Read no more, answer with the error when all earlier requests are answered, and close the connection.

        Earlier ones may have been decided. Where the request itself is under way, the connection is closed at once.
        """
        if self.transport.is_closing() or self._refusal is not None:
            return
        is_under_way = self._has_head and self.cycle is self._running
        if self._has_head and not is_under_way:
            self.pipeline.popleft()[0].on_response = _nothing  # it waits as the last one
        self._unparsed = memoryview(b"")
        self._refusal = b"" if is_under_way and self.cycle.response_started else raw_answer(error)
        if is_under_way or not self._is_answering():
            self._end(self._refusal)

    def _is_answering(self) -> bool:
        """Return True if a request is under way, or waits."""
        return bool(self.pipeline) or (self._running is not None and not self._running.response_complete)

    def _end(self, last: bytes) -> None:
        if last:
            self._joined.write(last)
        self._joined.close()
