"""Servers that are to be looked at, each once, and none by two threads at a time."""

from __future__ import annotations

import heapq
from threading import Condition
from time import monotonic


class Agenda:
    """Looks that are due now or later. Threads may share it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._due_s: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        self._busy: set[str] = set()

    def add(self, server: str, in_s: float = 0.0) -> None:
        """Have a server looked at in so many seconds, or earlier if that was wanted already."""
        at_s = monotonic() + in_s
        with self._changed:
            if at_s < self._due_s.get(server, at_s + 1):
                self._due_s[server] = at_s
                heapq.heappush(self._queue, (at_s, server))
                self._changed.notify()

    def take(self, wait_s: float) -> str | None:
        """Return a server whose look is due, and hold it until `done`; None if none became due in the time."""
        give_up_s = monotonic() + wait_s
        with self._changed:
            while True:
                next_s = self._next_s()
                now_s = monotonic()
                if next_s is not None and next_s <= now_s:
                    _, server = heapq.heappop(self._queue)
                    del self._due_s[server]
                    self._busy.add(server)
                    return server
                if now_s >= give_up_s:
                    return None
                self._changed.wait(min(give_up_s, next_s or give_up_s) - now_s)

    def done(self, server: str) -> None:
        """Let a server go. What came in the meantime is due as it was wanted."""
        with self._changed:
            self._busy.discard(server)
            if server in self._due_s:
                heapq.heappush(self._queue, (self._due_s[server], server))
            self._changed.notify()

    def waiting(self) -> tuple[int, float]:
        """Return how many looks are due, and for how many seconds the first of them has been."""
        now_s = monotonic()
        with self._changed:
            late_s = [now_s - due_s for due_s in self._due_s.values() if due_s <= now_s]
        return len(late_s), max(late_s, default=0.0)

    def _next_s(self) -> float | None:
        """Return when the first look is due that nobody has in hand. Entries that were replaced are dropped."""
        while self._queue:
            at_s, server = self._queue[0]
            if self._due_s.get(server) == at_s and server not in self._busy:
                return at_s
            heapq.heappop(self._queue)
        return None
