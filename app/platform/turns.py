"""Long work on the event loop, with turns for others in between."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_S = 0.005
"""So long may work go on before others get their turn."""


class Turns:
    """Tells when others must have a turn, and gives it to them."""

    def __init__(self) -> None:
        self._since = perf_counter()

    def is_due(self) -> bool:
        """Whether this work has had its time."""
        return perf_counter() - self._since > TURN_S

    async def give(self) -> None:
        """Let everybody else who is ready go first."""
        await asyncio.sleep(0)
        self._since = perf_counter()
