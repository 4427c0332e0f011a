"""The messages of a worker to its peers: which are due, in which order they go, and what their answers say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from heapq import nsmallest
from math import inf
from time import monotonic

from app.domain.jobs import Word
from app.domain.times import seconds
from app.engine.cloud import Cloud, JobRecord
from app.engine.jobs.attempts import Wish
from app.engine.jobs.originside import AwayState
from app.federation.contacts import LONGEST_PAUSE_S, Contact, LastWords, Pair
from app.federation.lending import Lender
from app.federation.messages import body_of, heard_of
from app.federation.rules.awayside import DueMessage, Heard, is_recent, wishes
from app.federation.rules.foreignside import ID_TAKEN
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore
from app.platform.outbound.asking import Asker, Inquiry
from app.platform.outbound.connection import NoAnswer
from app.platform.telemetry.metrics import OFFER_S, OFFERS

logger = logging.getLogger(__name__)

MessageKey = tuple[str, int, Wish]
"""A job, the number of its attempt, and what is wished of it."""

_METHODS = {Wish.OFFER: "PUT", Wish.AWARD: "PUT", Wish.CANCEL: "DELETE"}
_TOO_MANY = 429
_MOST_PLANNED = 1000
"""The messages that are put in order at a time; others follow."""
_POLL_S = 2.0
"""The time between two questions for an attempt that runs, at least."""
_POLLS_PER_S = 300
"""The questions of a worker for attempts that run, at most: each takes it a millisecond, and offers have no time."""
_FORGOTTEN_AFTER_S = 300.0
"""An attempt that was to be asked for so long ago has ended otherwise, or its peer is gone."""
_RETRY_S = 1.0
"""The time after which a message that failed is sent again, if its peer does not rest for longer."""
_MOST_FAILED = 10_000
_IN_HAND_S = 5.0
"""An answer is appended within this time, or its talk was broken off."""
_LOOK_S = 1.0
"""The appends look so often at which peers are paused or were removed."""
_MAY_CHANGE = {Word.RUNNING, Word.STAGING, Word.HELD, Word.UNKNOWN}
_NO_PEER = "no_peer"
_PAUSED = "paused_here"
BREAKER = "breaker_open"
_NEVER_SENT = {ID_TAKEN, BREAKER, _NO_PEER, _PAUSED}


class Messenger:
    """Sends messages to peers. `contacts`: how it fares with each; `last`: the last words that are waited for.

    `now_us` is the server's clock, in microseconds.
    """

    def __init__(self, peers: PeerStore, asker: Asker, lender: Lender, now_us: Callable[[], int]) -> None:
        self._peers, self._asker, self._lender, self._now_us = peers, asker, lender, now_us
        self.contacts: dict[str, Contact] = {}
        self.last = LastWords()
        self._again_s: dict[tuple[int, str, int, Wish], float] = {}
        self._retry_s: dict[tuple[int, str, int, Wish], float] = {}
        self._started: set[tuple[int, str, int]] = set()
        self._in_hand: dict[tuple[int, str, int], float] = {}
        self._open, self._looked_s = set[str](), -inf
        self._forgot_s = monotonic()

    def contact(self, peer: str) -> Contact:
        """Return how it fares with a peer."""
        return self.contacts.setdefault(peer, Contact())

    async def peer(self, name: str) -> Peer | None:
        """Return a peer, None if it was removed."""
        return next((one for one in await self._peers.all() if one.name == name), None)

    def is_due(self, cloud_id: int, cloud: Cloud, peer: str) -> bool:
        """Return True if something is to be told to a peer now, or to be decided as it does not answer."""
        at_us, now_s = cloud.present_us(self._now_us()), monotonic()
        due = (sent for sent in wishes(cloud, peer) if self._due_s(cloud_id, sent) <= now_s)
        return any(self._may_go(cloud_id, sent, at_us) for sent in due)

    def _may_go(self, cloud_id: int, sent: DueMessage, at_us: int) -> bool:
        is_overdue = sent.record.away.is_overdue(at_us)
        is_passed = sent.wish is Wish.OFFER and self.is_passed(sent.peer, sent.record)
        return is_overdue or is_passed or not self._rests(cloud_id, sent)

    def planned(
        self, cloud_id: int, cloud: Cloud, peer: str, under_way: Set[MessageKey], known: Peer | None
    ) -> list[DueMessage]:
        """Return the messages that are due and not under way, at most so many, the most urgent first.

        Offers, and awards of room that is held, come in the order in which their times end, then what has waited for
        the longest. Attempts whose lease is over are asked for from now on. A peer that was removed is told nothing.
        """
        at_us, now_s = cloud.present_us(self._now_us()), monotonic()
        due, overdue = list[tuple[bool, float, int, DueMessage]](), list[tuple[str, int]]()
        for number, sent in enumerate(wishes(cloud, peer)):
            away, due_s = sent.record.away, self._due_s(cloud_id, sent)
            if away.is_overdue(at_us):
                overdue.append((sent.record.asked.job, away.attempt))
            if due_s <= now_s and not (under_way and message_key(sent) in under_way):
                is_urgent = self._is_urgent(cloud_id, sent, at_us)
                if is_urgent or sent.wish is not Wish.OFFER:
                    due.append((not is_urgent, float(sent.until_us or 0) if is_urgent else due_s, number, sent))
        self.last.ask((cloud_id, peer), overdue)
        if known is None:
            for attempt in overdue:
                self.last.told((cloud_id, peer), attempt)
        first = nsmallest(_MOST_PLANNED, due)
        found = [sent._replace(is_urgent=not is_patient) for is_patient, _, _, sent in first]
        return [sent for sent in found if not self._waits(cloud_id, sent, known)]

    def _waits(self, cloud_id: int, sent: DueMessage, known: Peer | None) -> bool:
        """Return True if a message is not sent now, after a failure or because the peer said so."""
        if self._why_not(sent, known) is not None:
            return False  # it is declined without a message
        return known is None or self._rests(cloud_id, sent)

    def _rests(self, cloud_id: int, sent: DueMessage) -> bool:
        contact = self.contact(sent.peer)
        if not contact.rests(LONGEST_PAUSE_S):
            return False
        attempt = sent.record.asked.job, sent.record.away.attempt
        is_awaited = self.last.is_awaited((cloud_id, sent.peer), attempt, contact)
        return contact.rests(0.0 if is_awaited else _longest_rest_s(sent))

    def awaits_award(self, cloud_id: int, record: JobRecord, at_us: int) -> bool:
        """Return True for an awarded attempt whose host holds room for it yet, and did not say that it runs."""
        if not is_recent(record, at_us):
            return False
        return self._is_urgent(cloud_id, DueMessage(record.away.peer, Wish.AWARD, record), at_us)

    def taken_back(self, cloud: Cloud, pair: Pair) -> list[str]:
        """Return the jobs whose lease is over and whose host is not waited for any longer."""
        records = cloud.jobs.by_id
        found = [
            (records[job].away, job, attempt)
            for job, attempt in self.last.over(pair, self.contact(pair[1]))
            if job in records
        ]
        return [job for away, job, number in found if (away.state, away.attempt) == (AwayState.AWARDED, number)]

    def is_passed(self, peer: str, record: JobRecord) -> bool:
        """Return True for a peer that has not answered for long, if the job may be offered to another one.

        A job that has no other one waits for an answer: its attempts would all be over in no time.
        """
        broken = {name for name in record.asked.peers if name in self.contacts and self.contacts[name].is_broken}
        return peer in broken and len(broken) < len({*record.asked.peers})

    async def send(self, where: tuple[int, str], cloud: Cloud, sent: DueMessage, peer: Peer | None) -> Heard | None:
        """Send one message, and return the word of the answer; None if it is to be sent again."""
        (cloud_id, cloud_name), away, job = where, sent.record.away, sent.record.asked.job
        contact = self.contact(sent.peer)
        offer = body_of(cloud, sent)  # before anything is awaited, because the state may change then
        why_not = self._why_not(sent, peer)
        if why_not is not None:
            return Heard(job, sent.peer, away.attempt, None, why_not)
        if peer is None or self._rests(cloud_id, sent):
            return None
        body = offer or await self._award(cloud_id, sent)
        try:
            heard = await self._asked(cloud_name, sent, peer, body, contact)
        except NoAnswer as error:
            self._note_failure(cloud_id, sent)
            OFFERS.labels(cloud_name, sent.peer, sent.wish.value, "no_answer").inc()
            logger.warning("peer %s does not answer: %s", sent.peer, error)
            return None
        if heard is not None:
            self._in_hand[cloud_id, job, away.attempt] = monotonic()
            self._note_word(cloud_id, sent, heard[0].word)
            await self._lender.heard(cloud_id, sent.record, heard[0].word, heard[1])
            OFFERS.labels(cloud_name, sent.peer, sent.wish.value, str(heard[0].word)).inc()
        return None if heard is None else heard[0]

    async def _asked(
        self,
        cloud_name: str,
        sent: DueMessage,
        peer: Peer,
        body: Mapping[str, object] | None,
        contact: Contact,
    ) -> tuple[Heard, Mapping[str, object]] | None:
        """Return what a host says, None if it takes no more messages for now. Raise NoAnswer."""
        job, attempt, sent_s = sent.record.asked.job, sent.record.away.attempt, monotonic()
        url = f"{peer.url}/v1/clouds/{peer.cloud}/offers/{job}/{attempt}"
        url += "/award" if sent.wish is Wish.AWARD else ""
        is_offer = sent.wish is Wish.OFFER
        try:
            with OFFER_S.labels(sent.peer).time():
                reply = await self._asker.ask(Inquiry(peer.name, _METHODS[sent.wish], url, peer.secret, body))
            is_later = reply.status == _TOO_MANY and bool(reply.retry_after_s)
            heard = None if is_later else heard_of(Heard(job, sent.peer, attempt, None), reply, sent.wish)
        except NoAnswer:
            contact.answered(sent_s, is_offer=is_offer, is_word=False)
            contact.failed(sent_s)
            raise
        contact.answered(sent_s, is_offer=is_offer, is_word=heard is not None)
        if heard is None:
            contact.told_to_wait(reply.retry_after_s or 0)
            OFFERS.labels(cloud_name, sent.peer, sent.wish.value, "later").inc()
            return None
        contact.heard()  # the award follows its offer at once
        return heard, reply.body

    async def look(self) -> None:
        """Find out, once a second at most, which peers are asked at all."""
        if monotonic() >= self._looked_s + _LOOK_S:
            self._looked_s = monotonic()
            self._open = {one.name for one in await self._peers.all() if one.paused_because is None}

    def is_left_out(self, peer: str) -> bool:
        """Return True for a peer to which offers end without a message, as far as is known."""
        return peer not in self._open or self.contact(peer).is_broken

    def note(self, cloud_id: int, heard: Iterable[Heard]) -> None:
        """Note that these words are being appended: their attempts are not waited for."""
        for word in heard:
            self._in_hand.pop((cloud_id, word.job, word.attempt), None)
            self.last.told((cloud_id, word.peer), (word.job, word.attempt))

    def is_in_hand(self, cloud_id: int, record: JobRecord) -> bool:
        """Return True for an attempt whose host has answered, which is about to be appended."""
        heard_s = self._in_hand.get((cloud_id, record.asked.job, record.away.attempt))
        return heard_s is not None and monotonic() < heard_s + _IN_HAND_S

    def note_unheard(self, cloud_id: int, heard: Iterable[Heard]) -> None:
        """Note that these words could not be appended: their attempts are asked for again."""
        for word in heard:
            self.last.unheard((cloud_id, word.peer), (word.job, word.attempt))

    def _note_word(self, cloud_id: int, sent: DueMessage, word: Word | None) -> None:
        """Note when an attempt is asked for again. Words that change nothing now may be others later."""
        job, attempt, wish = message_key(sent)
        for one in Wish:
            self._again_s.pop((cloud_id, job, attempt, one), None)
            self._retry_s.pop((cloud_id, job, attempt, one), None)
        if word in _MAY_CHANGE and wish is not Wish.OFFER:
            self._ask_again((cloud_id, job, attempt, wish))
        if word is Word.RUNNING:
            self._started.add((cloud_id, job, attempt))
        elif word is not Word.STAGING:
            self._started.discard((cloud_id, job, attempt))

    def _ask_again(self, key: tuple[int, str, int, Wish]) -> None:
        now_s = monotonic()
        if now_s > self._forgot_s + _FORGOTTEN_AFTER_S:
            self._forgot_s = now_s
            self._again_s = {one: at_s for one, at_s in self._again_s.items() if at_s > now_s - _FORGOTTEN_AFTER_S}
            self._started &= {one[:3] for one in self._again_s}
            self._in_hand = {one: at_s for one, at_s in self._in_hand.items() if at_s > now_s - _IN_HAND_S}
        self._again_s[key] = now_s + max(_POLL_S, len(self._again_s) / _POLLS_PER_S)

    def _note_failure(self, cloud_id: int, sent: DueMessage) -> None:
        """Note that others come first, and that a last word is not to be hoped for if the host says nothing else."""
        if len(self._retry_s) >= _MOST_FAILED:  # of attempts that are over, mostly
            self._retry_s.clear()
        self._retry_s[cloud_id, *message_key(sent)] = monotonic() + _RETRY_S
        self.last.failed((cloud_id, sent.peer), (sent.record.asked.job, sent.record.away.attempt))

    def _due_s(self, cloud_id: int, sent: DueMessage) -> float:
        """Return from when on a message is sent: at once, but for one that was answered or failed lately."""
        if not (self._again_s or self._retry_s):
            return 0.0
        key = (cloud_id, *message_key(sent))
        return max(self._again_s.get(key, 0.0), self._retry_s.get(key, 0.0))

    def _is_urgent(self, cloud_id: int, sent: DueMessage, at_us: int) -> bool:
        """Return True for a message whose time has an end that is yet to come."""
        if not is_recent(sent.record, at_us):
            return False
        runs = (cloud_id, *message_key(sent)) in self._again_s
        return not runs and sent.until_us is not None and at_us < sent.until_us

    async def _award(self, cloud_id: int, sent: DueMessage) -> Mapping[str, object] | None:
        """Return the body of an award: links to its data, until its host says that it runs."""
        key = cloud_id, sent.record.asked.job, sent.record.away.attempt
        if sent.wish is not Wish.AWARD or key in self._started:
            return None
        return await self._lender.award(sent.record, self._now_us())

    def _why_not(self, sent: DueMessage, peer: Peer | None) -> str | None:
        """Return why an offer is declined without a message, None if it is sent."""
        if sent.wish is not Wish.OFFER:
            return None
        if peer is None:
            return _NO_PEER
        if peer.paused_because is not None:
            return _PAUSED
        return BREAKER if self.is_passed(sent.peer, sent.record) else None


def message_key(sent: DueMessage) -> MessageKey:
    """Return what a message is known by."""
    return sent.record.asked.job, sent.record.away.attempt, sent.wish


def was_sent(record: JobRecord, peer: str) -> bool:
    """Return True if a job was offered to a peer and the offer may have been sent."""
    return any(one.peer == peer and one.outcome not in _NEVER_SENT for one in record.tries)


def _longest_rest_s(sent: DueMessage) -> float:
    """Return the longest rest after a failure. An offer is sent within its time: its peer may be the only one."""
    return seconds(sent.record.asked.answer_us) / 2 if sent.wish is Wish.OFFER else LONGEST_PAUSE_S
