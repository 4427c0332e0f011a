"""The worker's part in jobs: the messages to peers, what follows from their answers, and what the clock ends.

One worker at a time speaks to a peer for a cloud, because it holds the lock of both. Whatever it sends is in the log
before: a worker that takes over sends the same again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextvars import Context
from heapq import nsmallest
from time import monotonic
from typing import Self

from app.domain.errors import LogNewer
from app.domain.events import Event, JobOffered, Recorded
from app.domain.jobs import Word
from app.domain.times import seconds
from app.domain.values import Clock
from app.engine.cloud import Cloud, JobRecord
from app.engine.jobs.attempts import Wish
from app.engine.jobs.originside import AwayState
from app.federation.contacts import LONGEST_PAUSE_S, Attempt, Contact, LastWords
from app.federation.lending import Lender
from app.federation.messages import body_of, heard_of
from app.federation.offering import held_back
from app.federation.rules.awayside import DueMessage, Heard, decide_away, wishes
from app.federation.rules.foreignside import ID_TAKEN, decide_due
from app.federation.rules.homeside import decide_completed
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore
from app.platform.database.lockids import federation_lock, peer_lock
from app.platform.database.locks import Locks
from app.platform.each import for_each_cloud
from app.platform.outbound.asking import Asker, Inquiry
from app.platform.outbound.connection import NoAnswer
from app.platform.telemetry.metrics import OFFER_S, OFFERS, count_jobs
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess

logger = logging.getLogger(__name__)

_METHODS = {Wish.OFFER: "PUT", Wish.AWARD: "PUT", Wish.CANCEL: "DELETE"}
_TALKS_AT_ONCE = 16
"""Each is with one peer about one cloud's jobs, and holds a connection to the database."""
_TALK_S = 5.0
"""A talk sends no more after this time, so that the next one gets its place; the other messages wait for their turn."""
_TURN_S = 0.5
"""The time that a turn waits for the answers of peers."""
_TOO_MANY = 429
_MOST_TOLD = 1000
"""The messages of one round to one peer about one cloud's jobs. Others follow; each is a task that takes memory."""
_MOST_PASSED = 1000
"""With so many events an append passes over no more dead peers."""
_ROUNDS = 3
"""Messages about one attempt in one turn: its offer and its award follow each other at once."""
_APPEND_S = 0.25
"""Answers that come meanwhile are appended together."""
_PAUSE_FACTOR = 4.0
"""An append looks at all open jobs. Where these are very many, the pause is so many times what it took."""
_POLL_S = 2.0
"""The time between two questions for an attempt that runs."""
_NO_PEER = "no_peer"
_PAUSED = "paused_here"
_BREAKER = "breaker_open"


_DueKey = tuple[str, int, Wish]


class JobKeeper:
    """Keeps the jobs of all clouds going. `now_us` is the server's clock, in microseconds."""

    def __init__(
        self,
        clouds: Clouds,
        states: States,
        locks: Locks,
        peers: PeerStore,
        asker: Asker,
        now_us: Callable[[], int],
        lender: Lender,
    ) -> None:
        self._clouds, self._states, self._locks = clouds, states, locks
        self._peers, self._asker, self._now_us, self._lender = peers, asker, now_us, lender
        self._contacts: dict[str, Contact] = {}
        self._runs: dict[tuple[int, str, int], float] = {}
        self._started: set[tuple[int, str, int]] = set()
        self._last = LastWords()
        self._talks: dict[tuple[int, str], asyncio.Task[int]] = {}
        self._places = asyncio.Semaphore(_TALKS_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for talk in self._talks.values():
            talk.cancel()
        await asyncio.gather(*self._talks.values(), return_exceptions=True)

    async def keep_jobs(self) -> int:
        """Take one turn for each cloud: send what is due, and append what follows; return how many events that was.

        A peer that is slow to answer is waited for beside the turns, so it keeps no other peer and no cloud waiting.
        """
        names = {cloud_id: name for name, cloud_id in (await self._clouds.list()).items()}
        written = await for_each_cloud(names, lambda cloud_id: self._keep(cloud_id, names[cloud_id]))
        if self._talks:
            await asyncio.wait(self._talks.values(), timeout=_TURN_S)
        over = [self._talks.pop(key) for key in [*self._talks] if self._talks[key].done()]
        errors = [error for talk in over if (error := talk.exception()) is not None]
        if errors:
            raise BaseExceptionGroup("talks with peers were broken off", errors)
        return written + sum(talk.result() for talk in over)

    async def _keep(self, cloud_id: int, name: str) -> int:
        cloud = await self._states.current(cloud_id)
        if not cloud.jobs.open and not cloud.jobs.foreign:
            return 0
        async with self._locks.held(federation_lock(cloud_id)) as hold:
            written = 0 if hold is None else await self._append((cloud_id, name), ())
        self._begin(cloud_id, name, await self._states.current(cloud_id))
        return written

    def _begin(self, cloud_id: int, name: str, cloud: Cloud) -> None:
        """Begin to talk to each peer that something is due to, unless that is under way."""
        for peer in [*cloud.jobs.out]:
            now_s = monotonic()
            is_due = any(self._due_s(cloud_id, sent) <= now_s for sent in wishes(cloud, peer))
            if is_due and (cloud_id, peer) not in self._talks:
                self._talks[cloud_id, peer] = asyncio.create_task(self._talk(cloud_id, name, peer), context=Context())

    async def _talk(self, cloud_id: int, name: str, peer: str) -> int:
        """Tell a peer what is due to it, and append what follows; return how many events that was."""
        written, told = 0, set[_DueKey]()
        lane = self._contact(peer).lane()
        async with lane, self._places, self._locks.held(peer_lock(cloud_id, peer)) as hold:
            until_s = monotonic() + _TALK_S
            for _ in range(0 if hold is None else _ROUNDS):
                cloud = await self._states.current(cloud_id)
                due = self._most_urgent(cloud_id, wishes(cloud, peer), told)
                heard = await self._hear((cloud_id, name), cloud, due, until_s)
                if heard is None:
                    break
                told.update(map(_due_key, due))
                written += heard
        if written:
            self._begin(cloud_id, name, await self._states.current(cloud_id))
        return written

    def _most_urgent(self, cloud_id: int, sent: Iterable[DueMessage], told: Set[_DueKey]) -> list[DueMessage]:
        """Return those that are due and not told yet, at most so many.

        Offers come first, since their time is short, then what has waited for the longest.
        """
        due: list[tuple[bool, float, int, DueMessage]] = []
        now_s = monotonic()
        for number, one in enumerate(sent):
            due_s = self._due_s(cloud_id, one)
            if due_s <= now_s and not (told and _due_key(one) in told):
                due.append((one.wish is not Wish.OFFER, due_s, number, one))
        return [one for *_, one in nsmallest(_MOST_TOLD, due)]

    def _contact(self, peer: str) -> Contact:
        return self._contacts.setdefault(peer, Contact())

    def _due_s(self, cloud_id: int, sent: DueMessage) -> float:
        """Return from when on a message is sent: at once, but for the award of an attempt that ran when last asked."""
        if sent.wish is not Wish.AWARD:
            return 0.0
        return self._runs.get((cloud_id, sent.record.asked.job, sent.record.away.attempt), 0.0)

    async def _append(self, where: tuple[int, str], heard: Sequence[Heard]) -> int:
        """Append what was heard and what the clock leads to; nothing is written if there is nothing."""

        async def decide(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
            at_us = cloud.present_us(self._now_us())
            recorded: list[Recorded] = []
            for step in (decide_completed, decide_due):
                recorded += [cloud.apply(event) for event in step(cloud, at_us)]
            following = [cloud.apply(event) for event in _away(cloud, heard, at_us, ())]  # each as it is decided
            names = self._in_turn(where[0], cloud, at_us)
            following += [cloud.apply(event) for event in _away(cloud, (), at_us, names)]
            while following:
                recorded += following
                unsent = self._unsent(cloud, following) if len(recorded) < _MOST_PASSED else []
                passed = [one.job for one in unsent]
                following = [cloud.apply(event) for event in _away(cloud, unsent, at_us, passed)]
            return recorded

        recorded = await self._states.appender(where[0]).append_decided(decide)
        count_jobs(where[1], recorded)
        return len(recorded)

    def _in_turn(self, cloud_id: int, cloud: Cloud, at_us: int) -> list[str]:
        """Return the open jobs for which the clock leads to something.

        A worker that finds that a lease is over asks the host once more: the attempt may have ended well while no
        worker was there to ask. And more offers than a peer can answer are not written down.
        """
        offers, overdue = list[JobRecord](), dict[Attempt, Contact]()
        for name in cloud.jobs.open:
            record = cloud.jobs.by_id[name]
            if record.is_native:
                continue
            if record.away.state is not AwayState.AWARDED:
                offers.append(record)
            elif record.away.is_overdue(at_us):
                overdue[name, record.away.attempt] = self._contact(record.away.peer)
        awaited = self._last.awaited(cloud_id, overdue)
        waits = held_back(cloud_id, offers, self._contacts)
        found = [name for name, attempt in overdue if (name, attempt) not in awaited]
        return found + [one.asked.job for one in offers if one.asked.job not in waits]

    def _unsent(self, cloud: Cloud, recorded: Sequence[Recorded]) -> list[Heard]:
        """Return the offers to peers that have not answered for long: they are declined, and no message is sent.

        So a dead peer costs a job no append of its own.
        """
        offered = [one.event for one in recorded if isinstance(one.event, JobOffered)]
        passed = [one for one in offered if self._is_passed(one.peer, cloud.jobs.by_id[one.job])]
        return [Heard(one.job, one.peer, one.attempt, None, _BREAKER) for one in passed]

    def _is_passed(self, peer: str, record: JobRecord) -> bool:
        """Return True for a peer that has not answered for long, if the job may be offered to another one.

        A job that has no other one waits for an answer: its attempts would all be over in no time.
        """
        broken = {name for name in record.asked.peers if name in self._contacts and self._contacts[name].is_broken}
        return peer in broken and len(broken) < len({*record.asked.peers})

    async def _hear(
        self, where: tuple[int, str], cloud: Cloud, due: Sequence[DueMessage], until_s: float
    ) -> int | None:
        """Send what is due, as long as there is time, and append what follows; return how many events that was.

        None: nothing was heard.
        """
        offers = [body_of(cloud, sent) for sent in due]  # before anything is awaited, because the state may change then
        peers = {peer.name: peer for peer in await self._peers.all()} if due else {}
        taken = await self._taken(where[0], due)
        bodies = [await self._award(where[0], sent) or body for sent, body in zip(due, offers, strict=True)]

        async def one(sent: DueMessage, body: Mapping[str, object] | None) -> Heard | None:
            if sent.wish is Wish.OFFER and sent.record.asked.job in taken:
                return Heard(sent.record.asked.job, sent.peer, sent.record.away.attempt, None, ID_TAKEN)
            async with self._contact(sent.peer).messages:
                is_due = monotonic() < until_s and cloud.jobs.by_id.get(sent.record.asked.job) is sent.record
                return await self._send(where, sent, body, peers.get(sent.peer)) if is_due else None

        tasks = [asyncio.create_task(one(sent, body)) for sent, body in zip(due, bodies, strict=True)]
        return await self._as_they_come(where, tasks)

    async def _as_they_come(self, where: tuple[int, str], answers: list[asyncio.Task[Heard | None]]) -> int | None:
        """Append answers a few times a second: an offer that is answered in time must not wait for all others."""
        written: int | None = None
        pause_s = _APPEND_S
        try:
            while answers:
                done, _ = await asyncio.wait(answers, timeout=pause_s)
                came = [task.result() for task in answers if task in done]
                answers = [task for task in answers if task not in done]
                if heard := [word for word in came if word is not None]:
                    began_s = monotonic()
                    self._note(where[0], heard)
                    written = (written or 0) + await self._append(where, heard)
                    pause_s = max(_APPEND_S, _PAUSE_FACTOR * (monotonic() - began_s))
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
        return written

    def _note(self, cloud_id: int, heard: Iterable[Heard]) -> None:
        """Note when attempts are asked for again."""
        for word in heard:
            key = cloud_id, word.job, word.attempt
            self._last.told(cloud_id, (word.job, word.attempt))
            if word.word in {Word.RUNNING, Word.STAGING}:
                self._started |= {key} if word.word is Word.RUNNING else set()
                self._runs[key] = monotonic() + _POLL_S
            else:
                self._runs.pop(key, None)
                self._started.discard(key)

    async def _taken(self, cloud_id: int, due: Sequence[DueMessage]) -> set[str]:
        """Return the jobs that are not offered, since another cloud of this service offered one of that id to the peer.

        A host knows a job by its origin and its id, and would take both for one. Each cloud's offer stands in its log
        before this looks at the logs of the others: of two at the same time one at least sees the other.
        """
        asked = {one.record.asked.job: one.peer for one in due if one.wish is Wish.OFFER}
        others = [one for one in (await self._clouds.list()).values() if one != cloud_id] if asked else []
        found = set[str]()
        for other in others:
            try:
                jobs = (await self._states.current(other)).jobs.by_id
            except LogNewer:  # a newer worker has that cloud, and looks here before it offers
                continue
            found |= {job for job, peer in asked.items() if job in jobs and _was_sent(jobs[job], peer)}
        return found

    async def _award(self, cloud_id: int, sent: DueMessage) -> Mapping[str, object] | None:
        """Return the body of an award: links to its data, until its host says that it runs."""
        key = cloud_id, sent.record.asked.job, sent.record.away.attempt
        if sent.wish is not Wish.AWARD or key in self._started:
            return None
        return await self._lender.award(sent.record, self._now_us())

    async def _send(
        self, where: tuple[int, str], sent: DueMessage, body: Mapping[str, object] | None, peer: Peer | None
    ) -> Heard | None:
        """Send one message, and return the word of the answer; None if it is to be sent again."""
        (cloud_id, cloud_name), away, job = where, sent.record.away, sent.record.asked.job
        contact = self._contact(sent.peer)
        is_passed = self._is_passed(sent.peer, sent.record)
        why_not = _why_not(peer, is_passed=is_passed) if sent.wish is Wish.OFFER else None
        if why_not is not None:
            return Heard(job, sent.peer, away.attempt, None, why_not)
        if peer is None:
            self._last.told(cloud_id, (job, away.attempt))
            return None
        is_awaited = self._last.is_awaited(cloud_id, (job, away.attempt), contact)
        if contact.rests(0.0 if is_awaited else _longest_rest_s(sent)):
            return None
        url = f"{peer.url}/v1/clouds/{peer.cloud}/offers/{job}/{away.attempt}"
        url += "/award" if sent.wish is Wish.AWARD else ""
        sent_s = monotonic()
        try:
            with OFFER_S.labels(sent.peer).time():
                try:
                    reply = await self._asker.ask(Inquiry(peer.name, _METHODS[sent.wish], url, peer.secret, body))
                finally:
                    contact.answered(sent_s)
            if reply.status == _TOO_MANY and reply.retry_after_s:
                contact.told_to_wait(reply.retry_after_s)
                OFFERS.labels(cloud_name, sent.peer, sent.wish.value, "later").inc()
                return None
            asked = Heard(job, sent.peer, away.attempt, None)
            heard = heard_of(asked, reply, sent.wish)
        except NoAnswer as error:
            contact.failed(sent_s)
            OFFERS.labels(cloud_name, sent.peer, sent.wish.value, "no_answer").inc()
            logger.warning("peer %s does not answer: %s", sent.peer, error)
            return None
        contact.heard()  # the award follows its offer at once
        await self._lender.heard(cloud_id, sent.record, heard.word, reply.body)
        OFFERS.labels(cloud_name, sent.peer, sent.wish.value, str(heard.word)).inc()
        return heard


def _longest_rest_s(sent: DueMessage) -> float:
    """Return the longest rest after a failure. An offer is sent within its time: its peer may be the only one."""
    return seconds(sent.record.asked.answer_us) / 2 if sent.wish is Wish.OFFER else LONGEST_PAUSE_S


def _was_sent(record: JobRecord, peer: str) -> bool:
    """Return True if a job was offered to a peer and the offer may have been sent."""
    return any(one.peer == peer and one.outcome not in {ID_TAKEN, _BREAKER, _NO_PEER, _PAUSED} for one in record.tries)


def _due_key(sent: DueMessage) -> _DueKey:
    return sent.record.asked.job, sent.record.away.attempt, sent.wish


def _away(cloud: Cloud, heard: Sequence[Heard], at_us: int, names: Iterable[str] | None = None) -> Iterable[Event]:
    return decide_away(cloud, heard, at_us, names) if cloud.policy.clock is not Clock.EXTERNAL else ()


def _why_not(peer: Peer | None, *, is_passed: bool) -> str | None:
    if peer is None:
        return _NO_PEER
    if peer.paused_because is not None:
        return _PAUSED
    return _BREAKER if is_passed else None
