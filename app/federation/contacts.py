"""The worker's contact with each peer: the failures that it rests after, the places that its messages take, and who is
asked for a last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import NamedTuple

_AT_ONCE = 16
"""Messages to one peer; so those that follow learn that it does not answer."""
_PATIENT_AT_ONCE = 8
"""Of these, messages that are not urgent: so there is always a place for an offer."""
_AT_FIRST = 4
"""Messages to a peer that has not answered lately: very many that hang hold few connections."""
_LATELY_S = 60.0
_NEWEST = 0.3
"""The weight of the newest answer's time among those before."""
_USED = 0.5
"""The share of the time for an answer in which a peer that goes on like this has answered all offers that are out."""
_MOST_OFFERS = 1000
_KNOWN_FOR_S = 5.0
"""The time for which it is known how long an offer takes; an hour ago it may have taken less."""
_QUICK_S = 1.0
LONGEST_PAUSE_S = 30.0
BROKEN_AFTER = 5
_SILENT_FOR_S, _ASKED_AT_MOST_S = 60.0, 600.0
"""A host is asked for its last word for the longer time at most, or until it has answered nothing for the shorter."""
_ABSENT_S = 15.0
"""A worker that has not looked for so long did not ask meanwhile, and so begins anew to wait."""
_ALIVE_S = 1.0
"""A peer that answered a message within this time does not fail for another one."""
_FAILS_FOR_S = 2.0
"""A host that has answered nothing for so long after a failure cannot be reached: answers may be on their way."""
_NOTED_FOR_S = 5.0
"""Offers that another worker has to do with by now are no longer noted here."""

Attempt = tuple[str, int]
"""A job and the number of its attempt."""
Pair = tuple[int, str]
"""A cloud's number and a peer's name."""


class CloudOffers(NamedTuple):
    """A cloud's offers at a peer, and the awards beside them, those that wait there, and when that was noted."""

    out: int
    waiting: int
    at_s: float


@dataclass(slots=True)
class Contact:
    """The failures in a row of the requests to a peer, since when (`failing_s`), and until when none is sent: for these
    or at its word.

    `messages`, `patient`: its places, the last ones of messages that are not urgent; `patient_out`: how many of these
    are taken. `heard_s`: when it last answered; `offer_took_s`, `took_s`: the time that it takes to answer an offer,
    and another message, the former as of `timed_s`. `offers`: what each cloud has out.
    """

    failures: int = 0
    failed_s: float = 0.0
    failing_s: float = 0.0
    not_before_s: float = 0.0
    told_until_s: float = 0.0
    heard_s: float = -inf
    offer_took_s: float | None = None
    took_s: float | None = None
    timed_s: float = -inf
    offers: dict[int, CloudOffers] = field(default_factory=dict)
    messages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    patient: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PATIENT_AT_ONCE))
    patient_out: int = 0

    def failed(self, sent_s: float) -> None:
        """Note a failure. Requests that were under way when one failed are the same failure.

        That of a message to a peer that answered another one just now is none of the peer.
        """
        if sent_s < self.failed_s or monotonic() < self.heard_s + max(_ALIVE_S, 2.0 * (self.took_s or 0.0)):
            return
        self.failures, self.failed_s = self.failures + 1, monotonic()
        self.failing_s = self.failed_s if self.failures == 1 else self.failing_s
        self.not_before_s = monotonic() + min(LONGEST_PAUSE_S, 2.0 ** (self.failures - 1))

    def answered(self, sent_s: float, *, is_offer: bool, is_word: bool) -> None:
        """Note how long a request took. What failed at once, or was put off, says nothing of how long answers take."""
        took_s = monotonic() - sent_s
        if not is_word and took_s < max(_QUICK_S, (self.offer_took_s if is_offer else self.took_s) or 0.0):
            return
        if is_offer:
            self.offer_took_s, self.timed_s = _later(self.offer_took_s, took_s), monotonic()
        else:
            self.took_s = _later(self.took_s, took_s)

    def heard(self) -> None:
        """Note that it said what was asked: it fails no more."""
        self.failures, self.not_before_s, self.heard_s = 0, 0.0, monotonic()

    @property
    def at_once(self) -> int:
        """The most messages that one cloud may have out: few as long as it is not known that they are answered."""
        return _AT_ONCE if not self.failures and monotonic() < self.heard_s + _LATELY_S else _AT_FIRST

    def most_offers(self, answer_s: float) -> int:
        """Return how many offers and awards may be out at a time, so that each offer is answered within its time.

        They share places, so the slower kind counts. A peer that has answered no offer just now may have become slow;
        and where another worker talks to it, this one would not know. Offers to a peer that is broken end without a
        message.
        """
        if self.is_broken:
            return _MOST_OFFERS
        took_s, places = max(self.offer_took_s or 0.0, self.took_s or 0.0), max(self.at_once - self.patient_out, 1)
        if self.offer_took_s is None:
            return places
        if monotonic() > self.timed_s + max(_KNOWN_FOR_S, 2.0 * took_s):
            return min(places, _AT_FIRST)
        return min(places * max(int(_USED * answer_s / max(took_s, 1e-3)), 1), _MOST_OFFERS)

    @asynccontextmanager
    async def place(self, *, is_urgent: bool) -> AsyncIterator[None]:
        """Wait for the place of one message."""
        if is_urgent:
            async with self.messages:
                yield
            return
        async with self.patient, self.messages:
            self.patient_out += 1
            try:
                yield
            finally:
                self.patient_out -= 1

    def told_to_wait(self, seconds: int) -> None:
        """Send nothing for a while. A peer that takes no more messages for now has not failed."""
        self.told_until_s = monotonic() + min(LONGEST_PAUSE_S, seconds)

    def note_offers(self, cloud_id: int, out: int, waiting: int) -> None:
        """Note how many offers of a cloud are out, and how many wait for this peer."""
        self.offers[cloud_id] = CloudOffers(out, waiting, monotonic())

    def has_place(self, cloud_id: int, out: int, answer_s: float) -> bool:
        """Return True if a cloud that has so many offers out may write one more. Clouds that wait have equal shares."""
        since_s, most = monotonic() - _NOTED_FOR_S, self.most_offers(answer_s)
        others = [one for other, one in self.offers.items() if other != cloud_id and one.at_s > since_s]
        share = max(most // (1 + sum(one.waiting > 0 for one in others)), 1)
        return out < share and out + sum(one.out for one in others) < most

    def rests(self, most_s: float) -> bool:
        """Return True while nothing is sent: after a failure at most so long."""
        return monotonic() < max(self.told_until_s, min(self.not_before_s, self.failed_s + most_s))

    @property
    def is_broken(self) -> bool:
        """True for a peer that has not answered for long."""
        return monotonic() < self.not_before_s and self.failures >= BROKEN_AFTER


class LastWords:
    """The attempts whose lease is over and that wait for the last word of a host, in the talks with it about a cloud.

    A worker that does not talk to the host does not know what it says, so it decides nothing of them.
    """

    def __init__(self) -> None:
        self._since_s: dict[Pair, dict[Attempt, float]] = {}
        self._failed: dict[Pair, set[Attempt]] = {}
        self._asked_s: dict[Pair, float] = {}

    def ask(self, pair: Pair, overdue: Iterable[Attempt]) -> None:
        """Note for all attempts of a pair whose lease is over that the host is asked from now on, if it was not yet."""
        now_s = monotonic()
        before = self._since_s.get(pair, {}) if self._asks(pair) else {}
        self._asked_s[pair] = now_s
        self._since_s[pair] = since_s = {key: before.get(key, now_s) for key in overdue}
        self._failed[pair] = self._failed.get(pair, set()) & since_s.keys()
        if not since_s:
            del self._since_s[pair], self._failed[pair], self._asked_s[pair]

    def over(self, pair: Pair, contact: Contact) -> set[Attempt]:
        """Return the attempts that wait no more: the host said something, could not be reached, or took too long."""
        since_s = self._since_s.get(pair, {}) if self._asks(pair) else {}
        return {key for key in since_s if not self.is_awaited(pair, key, contact)}

    def _asks(self, pair: Pair) -> bool:
        """Return False after a time in which this worker stood still, had no database, or did not have the talk."""
        return monotonic() < self._asked_s.get(pair, -inf) + _ABSENT_S

    def is_awaited(self, pair: Pair, key: Attempt, contact: Contact) -> bool:
        """Return True for an attempt that waits, which is asked for at once, whatever failed before."""
        since_s, now_s = self._since_s.get(pair, {}).get(key, -inf), monotonic()
        has_failed = contact.failures > 0 and contact.failed_s >= since_s
        is_over = key in self._failed.get(pair, ()) and now_s >= contact.failing_s + _FAILS_FOR_S
        is_lost = has_failed and (contact.is_broken or is_over)
        is_silent = now_s >= max(since_s, contact.heard_s) + _SILENT_FOR_S
        return not (is_lost or is_silent) and now_s < since_s + _ASKED_AT_MOST_S

    def told(self, pair: Pair, key: Attempt) -> None:
        """Note that an attempt is not waited for: its host has said something, or there is nobody to ask."""
        if key in self._since_s.get(pair, {}):
            self._since_s[pair][key] = -inf

    def unheard(self, pair: Pair, key: Attempt) -> None:
        """Note that what was said about an attempt is lost: it is waited for anew."""
        if key in self._since_s.get(pair, {}):
            self._since_s[pair][key] = monotonic()

    def failed(self, pair: Pair, key: Attempt) -> None:
        """Note that a message about an attempt failed. If the host answers others all the same, it is asked again."""
        if key in self._since_s.get(pair, {}):
            self._failed[pair].add(key)


def _later(before: float | None, newest: float) -> float:
    return newest if before is None else before + _NEWEST * (newest - before)
