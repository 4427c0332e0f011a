"""The worker's contact with each peer: the failures that it rests after, and the places that its messages take."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic

_AT_ONCE = 16
"""Messages to one peer; so those that follow learn that it does not answer."""
_TALKS_OF_PEER = 4
_SLOW_S = 1.0
"""A peer that took longer for an answer has only one talk at a time, for a minute."""
_SLOW_FOR_S = 60.0
LONGEST_PAUSE_S = 30.0
BROKEN_AFTER = 5


@dataclass(slots=True)
class Contact:
    """The failures in a row of the requests to a peer, and until when none is sent: for these, or at its word.

    `slow_until_s`: until when it counts as slow; `talks`, `slow_talks`, `messages`: its places.
    """

    failures: int = 0
    failed_s: float = 0.0
    not_before_s: float = 0.0
    told_until_s: float = 0.0
    slow_until_s: float = 0.0
    talks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_TALKS_OF_PEER))
    slow_talks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    messages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def failed(self, sent_s: float) -> None:
        """Note a failure. Requests that were under way when one failed are the same failure."""
        if sent_s < self.failed_s:
            return
        self.failures, self.failed_s = self.failures + 1, monotonic()
        self.not_before_s = monotonic() + min(LONGEST_PAUSE_S, 2.0 ** (self.failures - 1))

    def answered(self, sent_s: float) -> None:
        """Note that a request was answered, or that no answer came in time."""
        if monotonic() - sent_s > _SLOW_S:
            self.slow_until_s = monotonic() + _SLOW_FOR_S

    def lane(self) -> AbstractAsyncContextManager[None]:
        """Return the line in which its talks stand before they get a place."""
        return self.slow_talks if monotonic() < self.slow_until_s else self.talks

    def told_to_wait(self, seconds: int) -> None:
        """Send nothing for a while. A peer that takes no more messages for now has not failed."""
        self.told_until_s = monotonic() + min(LONGEST_PAUSE_S, seconds)

    def rests(self, most_s: float) -> bool:
        """Return True while nothing is sent: after a failure at most so long."""
        return monotonic() < max(self.told_until_s, min(self.not_before_s, self.failed_s + most_s))

    @property
    def is_broken(self) -> bool:
        """True for a peer that has not answered for long."""
        return monotonic() < self.not_before_s and self.failures >= BROKEN_AFTER
