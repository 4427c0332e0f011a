"""The worker's part in jobs: talks with peers, what follows from their answers, and what the clock ends.

One worker at a time speaks to a peer for a cloud, because it holds the lock of both. Whatever it sends is in the log
before: a worker that takes over sends the same again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from contextvars import Context
from math import inf
from time import monotonic
from typing import Self, cast

from app.domain.errors import LogNewer
from app.domain.events import Event, JobOffered, Recorded
from app.domain.values import Clock
from app.engine.cloud import Cloud, JobRecord
from app.engine.jobs.attempts import Wish
from app.engine.jobs.originside import AwayState
from app.federation.contacts import Pair
from app.federation.lending import Lender
from app.federation.messenger import BREAKER, MessageKey, Messenger, message_key, was_sent
from app.federation.offering import held_back
from app.federation.rules.awayside import DueMessage, Heard, decide_away
from app.federation.rules.foreignside import ID_TAKEN, decide_due
from app.federation.rules.homeside import decide_completed
from app.federation.rules.peers import Peer
from app.federation.store import PeerStore
from app.federation.talking import Talk
from app.platform.database.lockids import federation_lock, peer_lock
from app.platform.database.locks import Locks
from app.platform.each import for_each_cloud
from app.platform.outbound.asking import Asker
from app.platform.telemetry.metrics import count_jobs
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess

_TALKS_AT_ONCE = 16
"""Each is with one peer about one cloud's jobs, and holds a connection to the database."""
_TALK_S = 5.0
"""A talk sends no more after this time if another one waits for a place; the other messages wait for their turn."""
_TURN_S = 0.5
"""The time that a turn waits for the answers of peers."""
_LOOK_S = 1.0
"""A talk looks so often whether its peer was changed, paused or removed."""
_MOST_PASSED = 1000
"""With so many events an append passes over no more dead peers."""


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
        self._clouds, self.states, self._locks, self.now_us = clouds, states, locks, now_us
        self.messenger = Messenger(peers, asker, lender, now_us)
        self._talks: dict[Pair, asyncio.Task[int]] = {}
        self._places = asyncio.Semaphore(_TALKS_AT_ONCE)
        self._speaking = set[Pair]()

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
        cloud = await self.states.current(cloud_id)
        if not cloud.jobs.open and not cloud.jobs.foreign:
            return 0
        async with self._locks.held(federation_lock(cloud_id)) as hold:
            written = 0 if hold is None else await self.append((cloud_id, name), None, ())
        self.begin(cloud_id, name, await self.states.current(cloud_id))
        return written

    def begin(self, cloud_id: int, name: str, cloud: Cloud) -> None:
        """Begin to talk to each peer that something is due to, unless that is under way."""
        for peer in [*cloud.jobs.out]:
            if (cloud_id, peer) not in self._talks and self.messenger.is_due(cloud_id, cloud, peer):
                self._talks[cloud_id, peer] = asyncio.create_task(self._talk(cloud_id, name, peer), context=Context())

    async def _talk(self, cloud_id: int, name: str, peer: str) -> int:
        """Tell a peer what is due to it, and append what follows; return how many events that was."""
        pair, lane = (cloud_id, peer), self.messenger.contact(peer).lane()
        async with lane, self._places, self._locks.held(peer_lock(cloud_id, peer)) as hold:
            self._speaking.add(pair)
            try:
                return 0 if hold is None else await self._tell((cloud_id, name), peer, monotonic() + _TALK_S)
            finally:
                self._speaking.discard(pair)

    async def _tell(self, where: tuple[int, str], peer: str, until_s: float) -> int:
        speaker = _PeerSpeaker(self, where, peer, until_s)
        written, pair = await Talk(speaker).run(), (where[0], peer)
        is_over = self.messenger.taken_back(await self.states.current(where[0]), pair)
        return written + (await speaker.append(()) if is_over else 0)

    def is_waited_for(self) -> bool:
        """Return True if a talk has no place yet."""
        return any(not talk.done() and pair not in self._speaking for pair, talk in self._talks.items())

    async def append(self, where: tuple[int, str], peer: str | None, heard: Sequence[Heard]) -> int:
        """Append what was heard and what the clock leads to; nothing is written if there is nothing.

        `peer`: the one that is talked to. Of others this worker may not know whether they still answer.
        """
        self.messenger.note(where[0], heard)

        async def decide(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
            at_us = cloud.present_us(self.now_us())
            recorded: list[Recorded] = []
            for step in (decide_completed, decide_due):
                recorded += [cloud.apply(event) for event in step(cloud, at_us)]
            following = [cloud.apply(event) for event in _away(cloud, heard, at_us, ())]  # each as it is decided
            over = [] if peer is None else self.messenger.taken_back(cloud, (where[0], peer))
            names = [*over, *self._in_turn(where[0], cloud, at_us)]
            following += [cloud.apply(event) for event in _away(cloud, (), at_us, names)]
            while following:
                recorded += following
                unsent = self._unsent(cloud, following) if len(recorded) < _MOST_PASSED else []
                passed = [one.job for one in unsent]
                following = [cloud.apply(event) for event in _away(cloud, unsent, at_us, passed)]
            return recorded

        recorded = await self.states.appender(where[0]).append_decided(decide)
        count_jobs(where[1], recorded)
        return len(recorded)

    def _in_turn(self, cloud_id: int, cloud: Cloud, at_us: int) -> list[str]:
        """Return the open jobs that are not awarded, for which the clock may lead to something.

        More offers than a peer can answer are not written down.
        """
        offers, awards = list[JobRecord](), Counter[str]()
        for name in cloud.jobs.open:
            record = cloud.jobs.by_id[name]
            if record.is_native:
                continue
            if record.away.state is not AwayState.AWARDED:
                offers.append(record)
            elif self.messenger.awaits_award(cloud_id, record, at_us):
                awards[record.away.peer] += 1
        waits = held_back(cloud_id, offers, awards, self.messenger.contacts)
        return [one.asked.job for one in offers if one.asked.job not in waits]

    def _unsent(self, cloud: Cloud, recorded: Sequence[Recorded]) -> list[Heard]:
        """Return the offers to peers that have not answered for long: they are declined, and no message is sent.

        So a dead peer costs a job no append of its own.
        """
        offered = [one.event for one in recorded if isinstance(one.event, JobOffered)]
        passed = [one for one in offered if self.messenger.is_passed(one.peer, cloud.jobs.by_id[one.job])]
        return [Heard(one.job, one.peer, one.attempt, None, BREAKER) for one in passed]

    async def taken(self, cloud_id: int, offers: Iterable[DueMessage]) -> set[MessageKey]:
        """Return the offers that are not sent, since another cloud of this service offered one of that id to the peer.

        A host knows a job by its origin and its id, and would take both for one. Each cloud's offer stands in its log
        before this looks at the logs of the others: of two at the same time one at least sees the other.
        """
        asked = {message_key(one): one for one in offers}
        others = [one for one in (await self._clouds.list()).values() if one != cloud_id] if asked else []
        found = set[MessageKey]()
        for other in others:
            try:
                jobs = (await self.states.current(other)).jobs.by_id
            except LogNewer:  # a newer worker has that cloud, and looks here before it offers
                continue
            found |= {key for key, one in asked.items() if key[0] in jobs and was_sent(jobs[key[0]], one.peer)}
        return found


class _PeerSpeaker:
    """Talks to a peer about the jobs of one cloud: until a moment of the monotonic clock, then until a talk waits."""

    def __init__(self, keeper: JobKeeper, where: tuple[int, str], peer: str, until_s: float) -> None:
        self._keeper, self._where, self._name, self._until_s = keeper, where, peer, until_s
        self._messenger, self._peer, self._looked_s = keeper.messenger, cast("Peer | None", None), -inf
        self._is_taken = dict[MessageKey, bool]()

    def goes_on(self) -> bool:
        """Return False when it is the turn of another talk."""
        return monotonic() < self._until_s or not self._keeper.is_waited_for()

    async def plan(self, under_way: Set[MessageKey]) -> Sequence[DueMessage]:
        """Return what is due, and note of each offer whether its id is taken at the peer."""
        if monotonic() > self._looked_s + _LOOK_S:
            self._looked_s, self._peer = monotonic(), await self._messenger.peer(self._name)
        cloud_id = self._where[0]
        cloud = await self._keeper.states.current(cloud_id)
        found = self._messenger.planned(cloud_id, cloud, self._name, under_way, self._peer)
        before = self._is_taken
        new = [one for one in found if one.wish is Wish.OFFER and message_key(one) not in before]
        taken = await self._keeper.taken(cloud_id, new)
        self._is_taken = {key: before.get(key, key in taken) for key in map(message_key, found)}
        return found

    async def send(self, sent: DueMessage) -> Heard | None:
        """Send a message once it has a place, unless it is due no more; return the word of the answer."""
        if self._is_taken.get(message_key(sent)):
            return Heard(sent.record.asked.job, sent.peer, sent.record.away.attempt, None, ID_TAKEN)
        async with self._messenger.contact(self._name).place(is_urgent=sent.is_urgent):
            cloud = self._keeper.states.appender(self._where[0]).cloud
            is_late = sent.wish is Wish.OFFER and cloud.present_us(self._keeper.now_us()) >= (sent.until_us or 0)
            if is_late or cloud.jobs.by_id.get(sent.record.asked.job) is not sent.record:
                return None
            return await self._messenger.send(self._where, cloud, sent, self._peer)

    async def append(self, heard: Sequence[Heard]) -> int:
        """Append what was heard. What one peer declined is offered to others at once."""
        written = await self._keeper.append(self._where, self._name, heard)
        if written:
            self._keeper.begin(*self._where, self._keeper.states.appender(self._where[0]).cloud)
        return written


def _away(cloud: Cloud, heard: Sequence[Heard], at_us: int, names: Iterable[str] | None = None) -> Iterable[Event]:
    return decide_away(cloud, heard, at_us, names) if cloud.policy.clock is not Clock.EXTERNAL else ()
