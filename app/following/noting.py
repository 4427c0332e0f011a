"""Notes of what receivers answered, which outlast a database that takes no writes.

Who sends a message notes what came of it before it sends another, or the same one again: a receiver that is well gets
no message twice because the database is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from app.domain.errors import LogUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0


async def noted(webhook_id: int, write: Callable[[], Awaitable[T]]) -> T:
    """Write to the database, again and again while it does not take the write, and return the result.

    The pauses double. The log has one line for each doubling of the tries, so a long outage does not fill it.
    """
    pause_s, tries = _FIRST_PAUSE_S, 0
    while True:
        try:
            return await write()
        except LogUnavailable as error:
            tries += 1
            if tries & (tries - 1) == 0:
                logger.warning(
                    "webhook %d: delivering waits for the database to note what came of it (try %d): %s",
                    webhook_id,
                    tries,
                    error,
                )
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
