"""The worker's contact with each peer: the failures that it rests after, the places that its messages take, and who is
asked for a last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from math import inf
from time import monotonic

_AT_ONCE = 16
"""Messages to one peer; so those that follow learn that it does not answer."""
_TALKS_OF_PEER = 4
_SLOW_S = 1.0
"""A peer that took longer for an answer has only one talk at a time, for a minute."""
_SLOW_FOR_S = 60.0
_NEWEST = 0.3
"""The weight of the newest answer's time among those before."""
_USED = 0.5
"""The share of the time for an answer in which a peer that goes on like this has answered all offers that are out."""
_MOST_OFFERS = 1000
LONGEST_PAUSE_S = 30.0
BROKEN_AFTER = 5
_ASKED_FOR_S, _ASKED_AT_MOST_S = 60.0, 600.0
"""For so long a host is asked for its last word on an attempt; for the longer time while it answers for others."""
_ANSWERS_S = 5.0
_NOTED_FOR_S = 5.0
"""Offers that another worker has to do with by now are no longer noted here."""

Attempt = tuple[str, int]
"""A job and the number of its attempt."""


@dataclass(slots=True)
class Contact:
    """The failures in a row of the requests to a peer, and until when none is sent: for these, or at its word.

    `slow_until_s`: until when it counts as slow; `talks`, `slow_talks`, `messages`: its places. `heard_s`: when it last
    answered; `took_s`: the time that its answers take. `offers`: those that are out for each cloud,
    and when that was noted.
    """

    failures: int = 0
    failed_s: float = 0.0
    not_before_s: float = 0.0
    told_until_s: float = 0.0
    slow_until_s: float = 0.0
    heard_s: float = -inf
    took_s: float | None = None
    offers: dict[int, tuple[int, float]] = field(default_factory=dict)
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
        took_s = monotonic() - sent_s
        self.took_s = took_s if self.took_s is None else self.took_s + _NEWEST * (took_s - self.took_s)
        if took_s > _SLOW_S:
            self.slow_until_s = monotonic() + _SLOW_FOR_S

    def heard(self) -> None:
        """Note that it said what was asked: it fails no more."""
        self.failures, self.not_before_s, self.heard_s = 0, 0.0, monotonic()

    def most_offers(self, answer_s: float) -> int:
        """Return how many offers may be out at a time, so that all are answered within the time of one.

        Those to a peer that does not answer end with their time all the same.
        """
        if self.failures:
            return _MOST_OFFERS
        rounds = 1.0 if self.took_s is None else _USED * answer_s / max(self.took_s, 1e-3)
        return min(_AT_ONCE * max(int(rounds), 1), _MOST_OFFERS)

    def lane(self) -> AbstractAsyncContextManager[None]:
        """Return the line in which its talks stand before they get a place."""
        return self.slow_talks if monotonic() < self.slow_until_s else self.talks

    def told_to_wait(self, seconds: int) -> None:
        """Send nothing for a while. A peer that takes no more messages for now has not failed."""
        self.told_until_s = monotonic() + min(LONGEST_PAUSE_S, seconds)

    def note_offers(self, cloud_id: int, count: int) -> None:
        """Note how many offers of a cloud are out."""
        self.offers[cloud_id] = count, monotonic()

    def offers_beside(self, cloud_id: int) -> int:
        """Return how many offers of other clouds are out."""
        since_s = monotonic() - _NOTED_FOR_S
        return sum(count for other, (count, at_s) in self.offers.items() if other != cloud_id and at_s > since_s)

    def rests(self, most_s: float) -> bool:
        """Return True while nothing is sent: after a failure at most so long."""
        return monotonic() < max(self.told_until_s, min(self.not_before_s, self.failed_s + most_s))

    @property
    def is_broken(self) -> bool:
        """True for a peer that has not answered for long."""
        return monotonic() < self.not_before_s and self.failures >= BROKEN_AFTER


class LastWords:
    """Since when attempts whose lease is over wait for the last word of their host."""

    def __init__(self) -> None:
        self._since_s: dict[int, dict[Attempt, float]] = {}

    def awaited(self, cloud_id: int, overdue: Mapping[Attempt, Contact]) -> set[Attempt]:
        """Return the attempts whose hosts are asked: until they say something, could not be reached, or for too long.

        `overdue`: all attempts of the cloud whose lease is over.
        """
        before, now_s = self._since_s.get(cloud_id, {}), monotonic()
        self._since_s[cloud_id] = since_s = {key: before.get(key, now_s) for key in overdue}
        return {key for key, contact in overdue.items() if _is_awaited(since_s[key], contact)}

    def is_awaited(self, cloud_id: int, key: Attempt, contact: Contact) -> bool:
        """Return True for an attempt that waits, which is asked for at once, whatever failed before."""
        return _is_awaited(self._since_s.get(cloud_id, {}).get(key, -inf), contact)

    def told(self, cloud_id: int, key: Attempt) -> None:
        """Note that an attempt is not waited for: its host has said something, or there is nobody to ask."""
        if key in self._since_s.get(cloud_id, {}):
            self._since_s[cloud_id][key] = -inf


def _is_awaited(since_s: float, contact: Contact) -> bool:
    waited_s = monotonic() - since_s
    answers = monotonic() - contact.heard_s < _ANSWERS_S
    return contact.failed_s < since_s and waited_s < (_ASKED_AT_MOST_S if answers else _ASKED_FOR_S)
