"""One connection to the service, with bounds on what uvicorn leaves open: time, the size of a head, how many there are.

Starlette sees a request only when its head is there. So a caller that sends a head or a body drop by drop, or takes its
answer so, is met here: nothing of this costs a request more than a flag.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle, Transport
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.api.errors import ConnectionsExhausted, HeadTooLarge, RequestMalformed, RequestTooSlow, raw_answer

_HEAD_MAX = 1 << 16
_LEAVE_S = 5.0
"""What was answered has this long to be taken when the service stops."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`timeout_s`: a request that is not there, or an answer that is not taken, after one to two times this is given
    up. `connections`: more than this are refused.
    """

    timeout_s: float
    connections: int


class BoundedConnection(HttpToolsProtocol):
    """See the module's docstring. uvicorn makes one for each connection; the bounds come by `functools.partial`."""

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
        self._is_whole = False  # what comes in is a whole request
        self._has_head = False
        self._head_bytes = 0
        self._was_partial = False  # when the watch looked last, and ever since
        self._was_stalled = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take the connection, if there is room for one more."""
        super().connection_made(transport)
        self._look_in(self._bounds.timeout_s)
        if len(self.connections) > self._bounds.connections:
            self._refuse(ConnectionsExhausted("there are too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self.transport.is_closing():
            return
        self._is_whole = False
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_whole and self._head_bytes > _HEAD_MAX:
            self._refuse(HeadTooLarge("the request line and its headers are larger than this service takes"))

    def on_headers_complete(self) -> None:
        """The head is there, and says where to."""
        super().on_headers_complete()
        self._has_head, self._head_bytes = True, 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body is there; what comes between two of them, and trailers, count as a head does."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        self._is_whole, self._has_head, self._head_bytes, self._was_partial = True, False, 0, False
        super().on_message_complete()

    def resume_writing(self) -> None:
        """The caller takes its answer."""
        self._was_stalled = False
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words go to its log
        """Answer what is no HTTP in the form of every error."""
        self._refuse(RequestMalformed("this is not HTTP/1.1 as this service reads it"))

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
        if self._was_partial and not self._is_whole:
            self._refuse(RequestTooSlow(f"the request was not there after {self._bounds.timeout_s:g} s"))
        self._was_partial = not self._is_whole
        self._was_stalled = self.flow.write_paused or self.transport.is_closing()
        self._look_in(self._bounds.timeout_s)

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
