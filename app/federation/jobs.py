"""The worker's part in jobs: talks with peers, what follows from their answers, and what the clock ends.

One worker at a time speaks to a peer for a cloud, because it holds the lock of both. Whatever it sends is in the log
before: a worker that takes over sends the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence, Set
from contextvars import Context
from math import inf
from time import monotonic
from typing import Self, cast

from app.domain.errors import LogNewer
from app.engine.cloud import Cloud
from app.engine.jobs.attempts import Wish
from app.federation.contacts import Pair
from app.federation.lending import Lender
from app.federation.messenger import MessageKey, Messenger, message_key, was_sent
from app.federation.rules.awayside import DueMessage, Heard
from app.federation.rules.foreignside import ID_TAKEN
from app.federation.rules.peers import Peer
from app.federation.steps import JobSteps
from app.federation.store import PeerStore
from app.federation.talking import Talk
from app.platform.database.lockids import federation_lock, peer_lock
from app.platform.database.locks import Hold, LocksTogether
from app.platform.each import for_each_cloud
from app.platform.outbound.asking import Asker
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds

_TURN_S = 0.5
"""The time that a turn waits for the answers of peers."""
_LOOK_S = 1.0
"""A talk looks so often whether its peer was changed, paused or removed."""


class JobKeeper:
    """Keeps the jobs of all clouds going. `now_us` is the server's clock, in microseconds."""

    def __init__(
        self,
        clouds: Clouds,
        states: States,
        locks: LocksTogether,
        peers: PeerStore,
        asker: Asker,
        now_us: Callable[[], int],
        lender: Lender,
    ) -> None:
        self._clouds, self.states, self._locks, self.now_us = clouds, states, locks, now_us
        self.messenger = Messenger(peers, asker, lender, now_us)
        self._talks: dict[Pair, asyncio.Task[int]] = {}
        self._steps = JobSteps(states, self.messenger, now_us)

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
        async with self._locks.held(peer_lock(cloud_id, peer)) as hold:
            if hold is None:
                return 0
            speaker = _PeerSpeaker(self, (cloud_id, name), peer, hold)
            written = await Talk(speaker).run()
            is_over = self.messenger.taken_back(await self.states.current(cloud_id), (cloud_id, peer))
            return written + (await speaker.append(()) if is_over else 0)

    async def append(self, where: tuple[int, str], peer: str | None, heard: Sequence[Heard]) -> int:
        """Append what follows (`JobSteps.append`). What one peer declined is offered to others at once."""
        written = await self._steps.append(where, peer, heard)
        if written:
            self.begin(*where, self.states.appender(where[0]).cloud)
        return written

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
    """Talks to a peer about the jobs of one cloud, as long as this worker holds the lock of both."""

    def __init__(self, keeper: JobKeeper, where: tuple[int, str], peer: str, hold: Hold) -> None:
        self._keeper, self._where, self._name, self._hold = keeper, where, peer, hold
        self._messenger, self._peer, self._looked_s = keeper.messenger, cast("Peer | None", None), -inf
        self._is_taken = dict[MessageKey, bool]()

    def goes_on(self) -> bool:
        """Return False when the lock is lost."""
        return not self._hold.is_lost

    def at_once(self) -> int:
        """Return how many messages may be out."""
        return self._messenger.contact(self._name).at_once

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
        """Append what was heard, and what the clock leads to."""
        return await self._keeper.append(self._where, None if self._hold.is_lost else self._name, heard)
