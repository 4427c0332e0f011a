"""Telling open pages that there is something new: server-sent events without content, at most one a second.

A page that hears of a change asks for itself again and takes over what differs, so there is one way to draw a page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.ui.asking import watching
from app.ui.guard import NotSignedIn, still_signed_in

_EVERY_S = 1.0
_HEARTBEAT_S = 15.0
_LONGEST_S = 60.0
"""A stream ends after this long and the browser begins the next: so none outlives its token or its server for long."""

Look = Callable[[], Awaitable[object]]


async def follow_cloud(request: Request) -> Response:
    """Say whenever the cloud's log, tables, runs or history of utilisation have grown."""
    cloud = request.path_params["cloud"]

    async def look() -> object:
        return asdict(await watching(request).pulse(cloud))

    return await _stream(request, look)


async def follow_all(request: Request) -> Response:
    """Say whenever any cloud's log has grown, or a cloud was added."""
    caller = request.scope["state"]["caller"]

    async def look() -> object:
        return {name: asdict(pulse) for name, pulse in (await watching(request).pulses(caller.cloud)).items()}

    return await _stream(request, look)


async def _stream(request: Request, look: Look) -> Response:
    first = await look()
    return StreamingResponse(_changes(request, look, first), media_type="text/event-stream")


async def _changes(request: Request, look: Look, seen: object) -> AsyncIterator[str]:
    """The state at first, then each new one, until the longest time is over or the token is."""
    yield f"retry: 1000\nevent: now\ndata: {json.dumps(seen)}\n\n"
    end, told = monotonic() + _LONGEST_S, monotonic()
    while monotonic() < end and not await request.is_disconnected():
        await asyncio.sleep(_EVERY_S)
        try:
            await still_signed_in(request)
        except NotSignedIn:
            yield "event: signed-out\ndata: {}\n\n"
            return
        found = await look()
        if found != seen:
            seen, told = found, monotonic()
            yield f"event: changed\ndata: {json.dumps(found)}\n\n"
        elif monotonic() - told > _HEARTBEAT_S:
            told = monotonic()
            yield ": heartbeat\n\n"
