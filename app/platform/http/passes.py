"""Turns of callers: so much of one caller's work begins in a pass of the event loop, the rest waits.

A caller with hundreds of connections that all have something to say would make a pass as long as all that work, and
everybody else's request needs several passes. Whoever asks little never waits here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

PER_PASS = 16
"""Requests of one caller that begin in one pass; and of those that wait, of all callers together."""


class Passes:
    """The requests that begin in this pass, and those that wait, by caller."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[Callable[[], None]]] = {}
        self._is_set = False

    def may(self, caller: Hashable) -> bool:
        """Take one of the caller's places in this pass. Return False if there is none, or others of it wait."""
        begun = self._begun.get(caller, 0)
        if begun >= PER_PASS or caller in self._waiting:
            return False
        self._begun[caller] = begun + 1
        self._set()
        return True

    def wait(self, caller: Hashable, call: Callable[[], None]) -> None:
        """Make the call when it is the caller's turn."""
        self._waiting.setdefault(caller, deque()).append(call)
        self._set()

    def _set(self) -> None:
        if not self._is_set:
            self._is_set = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Begin the next pass with a share for each caller that waits."""
        self._is_set = False
        self._begun.clear()
        if not self._waiting:
            return
        self._set()
        share = max(1, PER_PASS // len(self._waiting))
        calls = [call for caller in [*self._waiting] for call in self._taken(caller, share)]
        for call in calls:
            call()

    def _taken(self, caller: Hashable, share: int) -> list[Callable[[], None]]:
        """Take up to so many of the caller's calls out of its queue."""
        line = self._waiting[caller]
        taken = [line.popleft() for _ in range(min(share, len(line)))]
        self._begun[caller] = PER_PASS
        if not line:
            del self._waiting[caller]
        return taken
