"""The host's side: offers, awards and withdrawals of peers, each decided in the line of its cloud and then answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.domain.errors import ClockExternal, OfferNotFound
from app.domain.events import Event, ForeignJobEnded
from app.domain.jobs import AttemptKey, Word
from app.domain.values import Clock, Resources
from app.engine.cloud import Cloud, held_name, run_name
from app.federation.peering import KnownPeers, quota_of
from app.federation.rules.foreignside import (
    PAUSED,
    QUOTA,
    ForeignAsk,
    PeerQuota,
    decide_award,
    decide_offer,
    decide_withdrawal,
    promised_to,
    word_told,
)
from app.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """A host's word on an attempt. `held_us`: for how long its room is held from now on; `reason`: of a refusal.

    `promised`: the largest probability of preemption that comes with the held room.
    """

    word: Word
    held_us: int = 0
    reason: str | None = None
    promised: float | None = None


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """The body of an offer."""

    demand: Resources
    count: int
    lifetime_us: int
    eviction_probability: float | None
    hold_us: int


class Hosting:
    """The attempts of peers at the clouds of this service."""

    def __init__(self, scheduler: Scheduler, peers: KnownPeers) -> None:
        self._scheduler, self._peers = scheduler, peers

    async def offer(self, cloud_name: str, key: AttemptKey, job: OfferedJob) -> OfferAnswer:
        """Hold room for an attempt, or refuse it. The same offer again has the same answer."""
        quota, quotes = await self._quota(key.origin), await self._scheduler.quotes(cloud_name)

        def decide(cloud: Cloud, at_us: int) -> Sequence[Event]:
            _check_clock(cloud)
            flavor = next((one.name for one in cloud.flavors.values() if one.resources == job.demand), "")
            ask = ForeignAsk(key, flavor, job.count, job.lifetime_us, job.eviction_probability, job.hold_us)
            return decide_offer(cloud, ask, quota, quotes(cloud), at_us)

        answer = await self._decided(cloud_name, key, decide, (held_name(key),))
        if answer.word is Word.UNKNOWN:  # its quota, which is not written down
            return OfferAnswer(Word.REFUSED, reason=PAUSED if quota is None else QUOTA)
        return answer

    async def award(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Start an attempt whose room is held still; what was never heard of can never be offered later."""
        await self._quota(key.origin)
        quotes = await self._scheduler.quotes(cloud_name)

        def decide(cloud: Cloud, at_us: int) -> Sequence[Event]:
            return decide_award(cloud, key, quotes(cloud), at_us)

        return replace(await self._decided(cloud_name, key, decide, (run_name(key),)), reason=None)

    async def withdraw(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """End an attempt at the wish of its origin."""
        await self._quota(key.origin)
        return await self._decided(cloud_name, key, lambda cloud, at_us: decide_withdrawal(cloud, key, at_us))

    async def _decided(
        self,
        cloud_name: str,
        key: AttemptKey,
        decide: Callable[[Cloud, int], Sequence[Event]],
        starts: tuple[str, ...] = (),
    ) -> OfferAnswer:
        """Write down what a message leads to, and return the word on its attempt right after that.

        The word is found in the decision: to read the state again would be a turn of its own for each message.
        """
        found: list[OfferAnswer] = []

        def decide_and_look(cloud: Cloud, at_us: int) -> Sequence[Event]:
            decided = decide(cloud, at_us)
            ends = [one for one in decided if isinstance(one, ForeignJobEnded) and one.attempt == key.attempt]
            with cloud.tried():
                for event in decided:
                    cloud.apply(event)
                found[:] = [replace(_word(cloud, key, at_us), reason=ends[-1].reason if ends else None)]
            return decided

        await self._scheduler.change(cloud_name, decide_and_look, None, starts)
        return found[0]

    async def known(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Return the word on an attempt. Raises OfferNotFound if it was never heard of."""
        await self._quota(key.origin)
        answer = await self.word(cloud_name, key)
        if answer.word is Word.UNKNOWN:
            cloud = await self._scheduler.state(cloud_name)
            if key not in cloud.jobs.host.attempts:
                raise OfferNotFound("there is no such attempt")
        return answer

    async def word(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Return the word on an attempt, as of the log's end."""
        cloud, at_us = await self._scheduler.present(cloud_name)
        return _word(cloud, key, at_us)

    async def _quota(self, name: str) -> PeerQuota | None:
        peer = await self._peers.get(name)
        if peer is None:
            raise OfferNotFound("there is no such attempt")
        return quota_of(peer)


def _word(cloud: Cloud, key: AttemptKey, at_us: int) -> OfferAnswer:
    word, known = word_told(cloud, key, at_us), cloud.jobs.host.attempts.get(key)
    held_us = max(known.until_us - at_us, 0) if known is not None and word is Word.HELD else 0
    return OfferAnswer(word, held_us, promised=promised_to(cloud, key) if word is Word.HELD else None)


def _check_clock(cloud: Cloud) -> None:
    if cloud.policy.clock is Clock.EXTERNAL:
        raise ClockExternal("a cloud with an external clock runs no jobs of peers")
