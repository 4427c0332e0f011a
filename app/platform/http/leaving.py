"""Long work for a request, given up when the caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")
_LOOK_S = 0.25


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns. The request's body must have been read.

    Raises what the work raises, and ClientDisconnect if the caller goes away before its end: the work is cancelled.
    """
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=_LOOK_S))[0]:
            if await request.is_disconnected():
                raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])
