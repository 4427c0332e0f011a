"""Streamed answers, which end soon after their token is revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

from starlette.types import Send

from app.platform.asked import bounds_of_their_own
from app.platform.http.errors import RateExceeded

logger = logging.getLogger(__name__)

_CHECK_S = 2.0
"""The interval at which a stream's token is checked. With the cache of tokens, a stream ends at most 4 s later."""


_FAREWELL_S = 1.0


Check = Callable[[], Awaitable[object]]


async def send_while(may_go_on: Check, sending: Coroutine[None, None, None], send: Send, farewell: bytes = b"") -> None:
    """Send a stream to its end, or until `may_go_on` raises an error other than RateExceeded; then send `farewell`.

    The check runs beside the sending, so a reader that takes nothing cannot keep the stream open.
    """
    with bounds_of_their_own():
        task = asyncio.ensure_future(sending)
        try:
            while not (await asyncio.wait({task}, timeout=_CHECK_S))[0]:
                error = await _objection(may_go_on)
                if error is not None and not task.done():
                    logger.info("a stream ended: %s", error or type(error).__name__)
                    await _break_off(task, send, farewell)
                    return
            await task
        finally:
            task.cancel()


async def _objection(may_go_on: Check) -> Exception | None:
    try:
        await may_go_on()
    except RateExceeded:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, the stream cannot go on
        return error
    return None


async def _break_off(sending: asyncio.Future[None], send: Send, farewell: bytes) -> None:
    """Stop a stream. It is told farewell, unless it came to its own end meanwhile."""
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    if not sending.cancelled():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_S):
            await send({"type": "http.response.body", "body": farewell})
