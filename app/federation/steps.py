"""The steps of a cloud's jobs, from the words of hosts and from the clock, appended to the cloud's log.

An append looks at all open jobs. So the talks of a cloud, of which each has its own answers, share their appends.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from app.domain.events import Event, JobOffered, Recorded
from app.domain.values import Clock
from app.engine.cloud import Cloud, JobRecord
from app.engine.jobs.originside import AwayState
from app.federation.messenger import BREAKER, Messenger
from app.federation.offering import held_back
from app.federation.rules.awayside import Heard, decide_away
from app.federation.rules.foreignside import decide_due
from app.federation.rules.homeside import decide_completed
from app.platform.telemetry.metrics import count_jobs
from app.scheduling.appending import States
from app.scheduling.store.log import LogAccess

_PAUSE_FACTOR = 4.0
"""The pause after a decision is so many times what it took: it is short unless open jobs are very many."""
_MOST_PASSED = 1000
"""With so many events an append passes over no more dead peers."""


@dataclass(slots=True)
class _Bundle:
    """Words that are appended together, and the peers whose talks they come from."""

    heard: list[Heard] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    is_done: bool = False


@dataclass(slots=True)
class _Appends:
    """The appends to one cloud's log, one after another. `next_s`: when the next one may begin."""

    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_s: float = 0.0
    bundle: _Bundle = field(default_factory=_Bundle)


class JobSteps:
    """Appends the steps of jobs, for all who wait at once. `now_us` is the server's clock, in microseconds."""

    def __init__(self, states: States, messenger: Messenger, now_us: Callable[[], int]) -> None:
        self._states, self._messenger, self._now_us = states, messenger, now_us
        self._queues = defaultdict[int, _Appends](_Appends)

    async def append(self, where: tuple[int, str], peer: str | None, heard: Sequence[Heard]) -> int:
        """Append what was heard and what the clock leads to, with what others bring meanwhile.

        Returns how many events were written for all of them: 0 to those who came with another one. `peer`: the one
        that is talked to. Of others this worker may not know whether they still answer.
        """
        queue = self._queues[where[0]]
        bundle = queue.bundle
        bundle.heard += heard
        bundle.peers += [] if peer is None else [peer]
        async with queue.alone:
            if bundle.is_done:
                return 0
            await asyncio.sleep(max(queue.next_s - monotonic(), 0.0))
            if queue.bundle is bundle:
                queue.bundle = _Bundle()
            written = await self._append(where, bundle, queue)
            bundle.is_done = True
            return written

    async def _append(self, where: tuple[int, str], bundle: _Bundle, queue: _Appends) -> int:
        await self._messenger.look()
        self._messenger.note(where[0], bundle.heard)

        async def decide(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
            began_s = monotonic()
            recorded = self._decided(where[0], cloud, bundle)
            queue.next_s = monotonic() + _PAUSE_FACTOR * (monotonic() - began_s)
            return recorded

        try:
            recorded = await self._states.appender(where[0]).append_decided(decide)
        except BaseException:
            self._messenger.note_unheard(where[0], bundle.heard)
            raise
        count_jobs(where[1], recorded)
        return len(recorded)

    def _decided(self, cloud_id: int, cloud: Cloud, bundle: _Bundle) -> list[Recorded]:
        """Return the events, each applied as it is decided."""
        at_us = cloud.present_us(self._now_us())
        recorded: list[Recorded] = []
        for step in (decide_completed, decide_due):
            recorded += [cloud.apply(event) for event in step(cloud, at_us)]
        following = [cloud.apply(event) for event in _away(cloud, bundle.heard, at_us, ())]
        over = [job for peer in {*bundle.peers} for job in self._messenger.taken_back(cloud, (cloud_id, peer))]
        names = [*over, *self._in_turn(cloud_id, cloud, at_us)]
        following += [cloud.apply(event) for event in _away(cloud, (), at_us, names)]
        while following:
            recorded += following
            unsent = self._unsent(cloud, following) if len(recorded) < _MOST_PASSED else []
            passed = [one.job for one in unsent]
            following = [cloud.apply(event) for event in _away(cloud, unsent, at_us, passed)]
        return recorded

    def _in_turn(self, cloud_id: int, cloud: Cloud, at_us: int) -> list[str]:
        """Return the open jobs that are not awarded, for which the clock may lead to something.

        More offers than a peer can answer are not written down, and one that was answered is not over.
        """
        offers, awards = list[JobRecord](), Counter[str]()
        for name in cloud.jobs.open:
            record = cloud.jobs.by_id[name]
            if record.is_native:
                continue
            if record.away.state is not AwayState.AWARDED:
                offers.append(record)
            elif self._messenger.awaits_award(cloud_id, record, at_us):
                awards[record.away.peer] += 1
        messenger = self._messenger
        waits = held_back(cloud_id, offers, awards, messenger.contact, messenger.is_left_out)
        some = [one for one in offers if not messenger.is_in_hand(cloud_id, one)]
        return [one.asked.job for one in some if one.asked.job not in waits]

    def _unsent(self, cloud: Cloud, recorded: Sequence[Recorded]) -> list[Heard]:
        """Return the offers to peers that have not answered for long: they are declined, and no message is sent.

        So a dead peer costs a job no append of its own.
        """
        offered = [one.event for one in recorded if isinstance(one.event, JobOffered)]
        passed = [one for one in offered if self._messenger.is_passed(one.peer, cloud.jobs.by_id[one.job])]
        return [Heard(one.job, one.peer, one.attempt, None, BREAKER) for one in passed]


def _away(cloud: Cloud, heard: Sequence[Heard], at_us: int, names: Iterable[str] | None = None) -> Iterable[Event]:
    return decide_away(cloud, heard, at_us, names) if cloud.policy.clock is not Clock.EXTERNAL else ()
