"""Long work on the event loop that regularly lets other tasks run."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_S = 0.005
"""The time that work may take before others get a turn."""


class Turns:
    """Tells when other tasks need a turn, and gives it to them."""

    def __init__(self) -> None:
        self._since = perf_counter()

    def is_due(self) -> bool:
        """Return True if this work has had its time."""
        return perf_counter() - self._since > TURN_S

    async def give(self) -> None:
        """Let all other ready tasks run first."""
        await asyncio.sleep(0)
        self._since = perf_counter()
