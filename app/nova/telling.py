"""The words told to servers lately: an owner who keeps changing it is put right once a comparison, not more often."""

from __future__ import annotations

from threading import Lock
from time import monotonic

from app.nova.rules.seen import ServerStep, StepKind

_Words = tuple[str, StepKind, tuple[tuple[str, str], ...]]
_MOST = 100_000


class Sayings:
    """The words said to servers in the last `for_s` seconds. Threads may share it."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._noting = Lock()
        self._at_s: dict[_Words, float] = {}

    def was_said(self, server: str, step: ServerStep) -> bool:
        """Return True if a server was told just this a moment ago."""
        with self._noting:
            return monotonic() - self._at_s.get(_words(server, step), -self._for_s) < self._for_s

    def said(self, server: str, step: ServerStep) -> None:
        """Note the words told to a server."""
        with self._noting:
            if len(self._at_s) >= _MOST:
                self._at_s.clear()
            self._at_s[_words(server, step)] = monotonic()


def _words(server: str, step: ServerStep) -> _Words:
    return server, step.kind, tuple(sorted(step.marks.items()))
