"""The host's side: offers, awards and withdrawals of peers, each decided in the line of its cloud and then answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.admission.kept import check_not_running
from app.domain.errors import ClockExternal, InstanceConflict, NotAPeer, OfferConflict, OfferNotFound
from app.domain.events import Event, ForeignJobEnded
from app.domain.jobs import AttemptKey, DataFault, Word
from app.domain.values import Clock, Resources
from app.engine.cloud import Cloud, held_name, run_name
from app.federation.links import Links
from app.federation.lodging import GivenData, Lodging, MadeOutputs, Staged
from app.federation.peering import KnownPeers, quota_of
from app.federation.rules.data import Direction
from app.federation.rules.foreignside import (
    AWARDED_BEFORE,
    ID_TAKEN,
    PAUSED,
    QUOTA,
    ForeignAsk,
    decide_award,
    decide_offer,
    decide_taken,
    decide_withdrawal,
    promised_to,
    word_told,
)
from app.federation.rules.links import stage_granted_us
from app.federation.rules.peers import Peer
from app.scheduling.scheduler import Scheduler

_TOLD = frozenset({*map(str, DataFault), ID_TAKEN})
"""The reasons that whoever awards is told."""


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """A host's word on an attempt. `held_us`: for how long its room is held from now on; `reason`: of a refusal.

    `promised`: the largest probability of preemption that comes with the held room; `staged`: of its inputs while they
    are on their way.
    """

    word: Word
    held_us: int = 0
    reason: str | None = None
    promised: float | None = None
    staged: Staged | None = None


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """The body of an offer."""

    demand: Resources
    count: int
    lifetime_us: int
    eviction_probability: float | None
    hold_us: int
    stage_us: int = 0
    data_bytes: int = 0
    input_bytes: int = 0


class Hosting:
    """The attempts of peers at the clouds of this service."""

    def __init__(self, scheduler: Scheduler, peers: KnownPeers, lodging: Lodging, links: Links) -> None:
        self._scheduler, self._peers, self._lodging, self._links = scheduler, peers, lodging, links

    async def offer(self, cloud_name: str, key: AttemptKey, job: OfferedJob) -> OfferAnswer:
        """Hold room for an attempt, or refuse it. The same offer again has the same answer."""
        peer, quotes = await self._peer(key.origin), await self._scheduler.quotes(cloud_name)
        quota, has_store = quota_of(peer), self._lodging.takes_from(peer)
        link = (await self._links.of(peer.name, Direction.IN, peer.link_mbit_s)).rate if job.stage_us else None
        granted_us = stage_granted_us(job.stage_us, link, job.input_bytes)
        stage_us = job.stage_us if granted_us is None else granted_us
        data = stage_us, job.data_bytes, has_store, granted_us is None, link

        def decide(cloud: Cloud, at_us: int) -> Sequence[Event]:
            _check_clock(cloud)
            flavor = next((one.name for one in cloud.flavors.values() if one.resources == job.demand), "")
            ask = ForeignAsk(key, flavor, job.count, job.lifetime_us, job.eviction_probability, job.hold_us, *data)
            return decide_offer(cloud, ask, quota, quotes(cloud), at_us)

        answer = await self._decided(cloud_name, key, decide, (held_name(key),), (run_name(key),))
        if answer.word is not Word.UNKNOWN:
            return answer
        if key in (await self._scheduler.state(cloud_name)).jobs.host.attempts:
            return OfferAnswer(Word.REFUSED, reason=AWARDED_BEFORE)
        return OfferAnswer(Word.REFUSED, reason=PAUSED if quota is None else QUOTA)  # these are not written down

    async def award(self, cloud_name: str, key: AttemptKey, given: GivenData | None) -> OfferAnswer:
        """Start an attempt whose room is held still; what was never heard of can never be offered later.

        One with inputs starts when they are here. Raises OfferConflict and PeerRefused for data that is not taken.
        """
        peer = await self._peer(key.origin)
        await self._take(cloud_name, key, peer, given)
        quotes = await self._scheduler.quotes(cloud_name)

        def decide(cloud: Cloud, at_us: int) -> Sequence[Event]:
            return decide_award(cloud, key, quotes(cloud), at_us)

        answer = await self._decided(cloud_name, key, decide, (run_name(key),))
        return await self._with_staged(cloud_name, key, replace(answer, reason=_told(answer.reason)))

    async def outputs(self, cloud_name: str, key: AttemptKey) -> MadeOutputs:
        """Return the outputs of an attempt, with links to read them. Raises OfferConflict before its end."""
        answer, cloud_id = await self._ended(cloud_name, key), await self._scheduler.cloud_id(cloud_name)
        return await self._lodging.outputs(cloud_id, cloud_name, key, answer.word)

    async def release(self, cloud_name: str, key: AttemptKey) -> None:
        """Let the outputs of an attempt go, at the word of its origin. Raises OfferConflict before its end."""
        await self._ended(cloud_name, key)
        await self._lodging.release(await self._scheduler.cloud_id(cloud_name), key)

    async def _take(self, cloud_name: str, key: AttemptKey, peer: Peer, given: GivenData | None) -> None:
        """Enter the data of an award, as long as the attempt waits for it."""
        cloud = await self._scheduler.state(cloud_name)
        word, room = cloud.jobs.host.word_on(key), cloud.jobs.held.get(key)
        if room is None or not room.data_bytes + room.stage_us or word not in {Word.HELD, Word.STAGING}:
            return
        if given is None and word is Word.HELD:
            raise OfferConflict("the award brings no data, and data was offered")
        if given is not None:
            await self._lodging.take(await self._scheduler.cloud_id(cloud_name), key, room, peer, given)

    async def _with_staged(self, cloud_name: str, key: AttemptKey, answer: OfferAnswer) -> OfferAnswer:
        if answer.word is not Word.STAGING:
            return answer
        return replace(answer, staged=await self._lodging.staged(await self._scheduler.cloud_id(cloud_name), key))

    async def withdraw(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """End an attempt at the wish of its origin."""
        await self._peer(key.origin)
        return await self._decided(cloud_name, key, lambda cloud, at_us: decide_withdrawal(cloud, key, at_us))

    async def _decided(
        self,
        cloud_name: str,
        key: AttemptKey,
        decide: Callable[[Cloud, int], Sequence[Event]],
        starts: tuple[str, ...] = (),
        keeps: tuple[str, ...] = (),
    ) -> OfferAnswer:
        """Write down what a message leads to, and return the word on its attempt right after that.

        The word is found in the decision: to read the state again would be a turn of its own for each message.
        """
        found: list[OfferAnswer] = []

        def decide_and_look(cloud: Cloud, at_us: int) -> Sequence[Event]:
            decided = decide(cloud, at_us)
            ends = [one for one in decided if isinstance(one, ForeignJobEnded) and one.attempt == key.attempt]
            check_not_running(cloud, decided)
            with cloud.tried():
                for event in decided:
                    cloud.apply(event)
                told = _word(cloud, key, at_us)
                found[:] = [replace(told, reason=ends[-1].reason) if ends else told]
            return decided

        try:
            await self._scheduler.change(cloud_name, decide_and_look, None, starts, keeps)
        except InstanceConflict:  # ids are shared: somebody here has started one of this name
            return await self._decided(cloud_name, key, lambda cloud, at_us: decide_taken(cloud, key, at_us))
        return found[0]

    async def known(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Return the word on an attempt. Raises OfferNotFound if it was never heard of."""
        await self._peer(key.origin)
        answer = await self.word(cloud_name, key)
        if answer.word is Word.UNKNOWN:
            cloud = await self._scheduler.state(cloud_name)
            if key not in cloud.jobs.host.attempts:
                raise OfferNotFound("there is no such attempt")
        return answer

    async def _ended(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Return the word on an attempt that is over. Raises OfferNotFound, OfferConflict if it is not over."""
        answer = await self.known(cloud_name, key)
        if answer.word in {Word.HELD, Word.STAGING, Word.RUNNING}:
            raise OfferConflict(f"the attempt is {answer.word.value}: its outputs are there once it has finished")
        return answer

    async def word(self, cloud_name: str, key: AttemptKey) -> OfferAnswer:
        """Return the word on an attempt, as of the log's end."""
        cloud, at_us = await self._scheduler.present(cloud_name)
        return _word(cloud, key, at_us)

    async def _peer(self, name: str) -> Peer:
        peer = await self._peers.get(name)
        if peer is None:
            raise NotAPeer(f"no peer is called {name!r} here")
        return peer


def _word(cloud: Cloud, key: AttemptKey, at_us: int) -> OfferAnswer:
    word, known = word_told(cloud, key, at_us), cloud.jobs.host.attempts.get(key)
    held_us = max(known.until_us - at_us, 0) if known is not None and word is Word.HELD else 0
    promised = promised_to(cloud, key) if word is Word.HELD else None
    reason = None if known is None else known.reason
    return OfferAnswer(word, held_us, reason if word is Word.REFUSED else _told(reason), promised)


def _told(reason: str | None) -> str | None:
    """Return a reason if whoever awards is told it; others are kept."""
    return reason if reason in _TOLD else None


def _check_clock(cloud: Cloud) -> None:
    if cloud.policy.clock is Clock.EXTERNAL:
        raise ClockExternal("a cloud with an external clock runs no jobs of peers")
