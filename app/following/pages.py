"""Tells open pages of changes: server-sent events without content, at most one a second.

A page that hears of a change requests itself again and takes over what differs, so there is one way to draw a page.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.domain.errors import Unavailable
from app.following.page_watch import PageWatch
from app.platform.http.auth import caller_of
from app.platform.http.reached import reached
from app.platform.http.streams import send_while
from app.platform.pages.guard import still_signed_in

_APART_S = 0.9
"""The least time between two changes that a page hears of."""
_LOOK_S = 2.0
"""Tables, runs and the history grow without the log: they are looked at this often."""
_HEARTBEAT_S = 15.0
_LONGEST_S = 300.0
"""A stream ends after this long, and the browser begins the next."""
_SIGNED_OUT = b"event: signed-out\ndata: {}\n\n"

Look = Callable[[], Awaitable[dict[str, Any]]]
WaitForNews = Callable[[dict[str, Any]], Awaitable[None]]


async def follow_cloud(request: Request) -> Response:
    """Signal whenever the cloud's log, tables, runs or history of utilisation have grown."""
    cloud = request.path_params["cloud"]

    async def look() -> dict[str, Any]:
        return asdict(await reached(request, PageWatch).pulse(cloud))

    async def wait(seen: dict[str, Any]) -> None:
        await reached(request, PageWatch).wait(cloud, seen["seq"], _LOOK_S)

    return _stream(request, look, wait, await look())


async def follow_all(request: Request) -> Response:
    """Signal whenever any cloud's log has grown or a cloud was added."""
    caller = request.scope["state"]["caller"]

    async def look() -> dict[str, Any]:
        return {name: asdict(pulse) for name, pulse in (await reached(request, PageWatch).pulses(caller.cloud)).items()}

    async def wait(_: dict[str, Any]) -> None:
        await reached(request, PageWatch).rest(_APART_S)

    return _stream(request, look, wait, await look())


def followed(look_at: Callable[[Request], Awaitable[dict[str, Any]]]) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler that signals whenever what `look_at` returns for the request is another than before."""

    async def follow(request: Request) -> Response:
        async def look() -> dict[str, Any]:
            return await look_at(request)

        async def wait(_: dict[str, Any]) -> None:
            await reached(request, PageWatch).rest(_LOOK_S)

        return _stream(request, look, wait, await look())

    return follow


def _stream(request: Request, look: Look, wait: WaitForNews, seen: dict[str, Any]) -> Response:
    reached(request, PageWatch).check_room(caller_of(request).id)
    return _PageStream(request, _changes(request, look, wait, seen))


class _PageStream(StreamingResponse):
    """A stream of changes. It ends after the longest time, with its token, or with the process."""

    def __init__(self, request: Request, changes: AsyncIterator[str]) -> None:
        super().__init__(changes, media_type="text/event-stream")
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the changes."""

        async def may_go_on() -> None:
            await still_signed_in(self._request)

        with reached(self._request, PageWatch).place(caller_of(self._request).id):
            await send_while(may_go_on, super().__call__(scope, receive, send), send, _SIGNED_OUT)


async def _changes(request: Request, look: Look, wait: WaitForNews, seen: dict[str, Any]) -> AsyncIterator[str]:
    """Yield the state at first, then each new one."""
    page_watch = reached(request, PageWatch)
    yield f"retry: 1000\nevent: now\ndata: {json.dumps(seen)}\n\n"
    end, told = monotonic() + _LONGEST_S, monotonic()
    while monotonic() < end and not page_watch.closing.is_set():
        await wait(seen)
        try:
            found = await look()
        except Unavailable:  # the browser comes back
            return
        if found != seen:
            seen, told = found, monotonic()
            yield f"event: changed\ndata: {json.dumps(found)}\n\n"
            await page_watch.rest(_APART_S)
        elif monotonic() - told > _HEARTBEAT_S:
            told = monotonic()
            yield ": heartbeat\n\n"
