"""A layer around every answer: request id, microversion, form of errors, and the limit of every request's body.

It is one plain ASGI layer, because it runs on every start and stop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from functools import lru_cache
from random import Random
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.platform.asked import one_bound
from app.platform.http.bodies import check_query
from app.platform.http.errors import (
    MAX_VERSION,
    MIN_VERSION,
    OTHERS_VERSION,
    PROBLEMS,
    SERVICE_TYPE,
    BodyTooLarge,
    PathUnknown,
    RequestInvalid,
    VersionMalformed,
    VersionUnsupported,
    answer,
)
from app.platform.http.pacing import RefusalPace
from app.platform.telemetry.context import REQUEST, shown
from app.platform.telemetry.logs import REQUESTS
from app.platform.telemetry.metrics import OTHER, RequestMeter
from app.platform.telemetry.tracing import TRACES

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"req-[0-9a-f-]{36}")
_VERSION = re.compile(r"([1-9][0-9]{0,3}|0)\.([1-9][0-9]{0,3}|0)")
_OTHERS = re.compile(OTHERS_VERSION)
_VERSION_HEADER = b"openstack-api-version"
_ID_HEADER = b"x-openstack-request-id"
_VARY = (b"vary", b"OpenStack-API-Version")
_VERSION_USED = (_VERSION_HEADER, f"{SERVICE_TYPE} {MAX_VERSION}".encode())
_REFRESH = b"x-tenure-live"
"""The header that a page sends when it refreshes itself."""
_METER = RequestMeter()
_RANDOM = Random()  # noqa: S311 - seeded by the system
_TOO_MANY = 429
_QUIET = {"discover", "check_health", "check_readiness", "read_process_metrics", "read_cloud_metrics"}
"""Operations that machines call every few seconds; they are logged only if they fail."""


class Envelope:
    """The layer itself. `max_body_bytes` limits a body as it arrives, whatever length it declares.

    Refusals of those who ask too often go at the `pace` of the process.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, pace: RefusalPace) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._max_body_bytes, self._pace)
        REQUEST.set(exchange.scope)
        with TRACES.request(exchange.scope), one_bound():
            try:
                exchange.check()
                await self._app(exchange.scope, exchange.receive, exchange.send)
            except ClientDisconnect:
                logger.debug("the caller went away")
            except Exception as error:  # noqa: BLE001 - the last net: the caller gets an answer, the log the trace
                await exchange.fail(error)
        exchange.log()


class Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_body_bytes: int, pace: RefusalPace) -> None:
        self.request_id = _new_id()
        self.given_id: str | None = None
        self.status = 0
        self._began = perf_counter()
        self._is_head = scope["method"] == "HEAD"
        self.scope = {**scope, "method": "GET"} if self._is_head else scope
        self.scope.setdefault("state", {}).update(request_id=self.request_id, is_head=self._is_head)
        self._receive = receive
        self._send = send
        self._room = max_body_bytes
        self._pace = pace
        self._added = (_VARY, _VERSION_USED, (_ID_HEADER, self.request_id.encode()))

    def check(self) -> None:
        """Check the path and headers that matter to every request. Raise the error found."""
        if "\0" in self.scope["path"]:
            raise PathUnknown("no name has a NUL in it")
        if self.scope["query_string"]:
            check_query(self.scope["query_string"])
        for name, value in self.scope["headers"]:
            if name == b"content-length":
                if int(value) > self._room:
                    raise self._too_large()
            elif name == _VERSION_HEADER:
                check_version(value)
            elif name == _ID_HEADER:
                text = value.decode("latin-1")
                self.given_id = text if _REQUEST_ID.fullmatch(text) else "req-unreadable"

    async def receive(self) -> Message:
        """Return the next part of the body. Raise BodyTooLarge if it exceeds the limit."""
        message = await self._receive()
        self._room -= len(message.get("body", b""))
        if self._room < 0:
            raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer. The first gets the headers of every answer; HEAD gets no body."""
        if message["type"] == "http.response.start":
            self.status = self.scope["state"]["status"] = message["status"]
            operation = self.scope["state"].get("operation", OTHER)
            _METER.answered(operation, self.status, perf_counter() - self._began)
            message["headers"] = [*message["headers"], *self._added]
            if self.status == _TOO_MANY:
                await self._hold(self._pace.delay_s())
        elif self._is_head:
            message["body"] = b""
        await self._send(message)

    async def _hold(self, seconds: float) -> None:
        """Let the time pass. Raise ClientDisconnect if the caller goes away meanwhile."""
        if seconds <= 0:
            return
        with suppress(TimeoutError, BodyTooLarge):
            async with asyncio.timeout(seconds):
                while (await self.receive())["type"] != "http.disconnect":
                    pass
                raise ClientDisconnect

    async def fail(self, error: Exception) -> None:
        """Answer an error that no handler has answered."""
        if type(error) not in PROBLEMS and not isinstance(error, RequestInvalid):
            logger.error("a request failed", extra={"request_id": self.request_id}, exc_info=error)
            TRACES.failed(error)
        if self.status:
            raise error
        with suppress(ClientDisconnect):
            await answer(self.scope, error)(self.scope, self._receive, self.send)

    def log(self) -> None:
        """Log the request, with the caller's request id and ours. Status 0: the caller left before the answer."""
        scope, status = self.scope, self.status
        if status >= 500:
            level = logging.ERROR
        elif status < 400 and (scope["state"].get("operation") in _QUIET or _is_refresh(scope)):
            level = logging.DEBUG
        else:
            level = logging.INFO
        if REQUESTS.takes(level):
            fields = {
                "method": "HEAD" if self._is_head else scope["method"],
                "path": shown(scope["path"]),
                "status": status,
                "duration_s": round(perf_counter() - self._began, 6),
                "address": (scope["client"] or ("",))[0],
            }
            if self.given_id is not None:
                fields["callers_request_id"] = self.given_id
            REQUESTS.write(level, scope, fields)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge("the body is larger than this service takes")


def _new_id() -> str:
    """Return a UUID without a system call for each: it must be unique, not secret."""
    text = f"{_RANDOM.getrandbits(128):032x}"
    return f"req-{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _is_refresh(scope: Scope) -> bool:
    """Return True if an open page asks by itself: for changes, for news of changes, or for its files."""
    path = scope["path"]
    return (
        scope["method"] == "GET"
        and path.startswith("/ui")
        and (
            path.startswith("/ui/static/")
            or path.endswith("/live")
            or any(name == _REFRESH for name, _ in scope["headers"])
        )
    )


@lru_cache(maxsize=256)
def check_version(header: bytes) -> None:
    """Check the requested microversion of this service; other services' versions are ignored."""
    for part in header.decode("latin-1").split(","):
        service, _, version = part.strip(" ").partition(" ")
        if service != SERVICE_TYPE and _OTHERS.fullmatch(part.strip(" ")):
            continue
        if service == SERVICE_TYPE and version == "latest":
            continue
        if service != SERVICE_TYPE or not _VERSION.fullmatch(version):
            raise VersionMalformed(f"write it as 'OpenStack-API-Version: {SERVICE_TYPE} {MAX_VERSION}'")
        if not _number(MIN_VERSION) <= _number(version) <= _number(MAX_VERSION):
            raise VersionUnsupported(f"there are versions {MIN_VERSION} to {MAX_VERSION}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
