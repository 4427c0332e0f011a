"""The standing of peers over all clouds, and the breaker that pauses those that do not keep their promises."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from app.domain.errors import FormatNotInForce, LogNewer, PeerNotFound
from app.domain.events import Recorded
from app.domain.times import from_datetime
from app.engine.cloud import Cloud
from app.engine.jobs.standings import AwardFate, PeerTally
from app.federation.links import Links, PeerLink
from app.federation.rules.foreignside import PeerQuota
from app.federation.rules.peers import Peer
from app.federation.rules.standings import HostedUse, broken, decide_pauses, hosted_use
from app.federation.store import PeerStore
from app.scheduling.appending import States
from app.scheduling.scheduler import Scheduler
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess

logger = logging.getLogger(__name__)

HALF_OPEN = timedelta(hours=1)
"""The time that the breaker keeps a peer paused. Then it is offered jobs again, and judged by those alone."""
BREAKER = "breaker"
OPERATOR = "operator"


class CloudStanding(NamedTuple):
    """A peer's standing at one cloud, and what it has there now."""

    cloud: str
    standing: PeerTally
    use: HostedUse


class PeerStanding(NamedTuple):
    """A peer with its standing at each cloud that knows it, by name, and the links to it that are known."""

    peer: Peer
    clouds: list[CloudStanding]
    links: Sequence[PeerLink] = ()

    @property
    def quota(self) -> PeerQuota:
        """The most that it may have in each cloud here."""
        return PeerQuota(**self.peer.quota)


class PeerStandings:
    """Reads the standings of peers from the states of all clouds."""

    def __init__(self, scheduler: Scheduler, peers: PeerStore, links: Links) -> None:
        self._scheduler, self._peers, self._links = scheduler, peers, links

    async def of(self, name: str) -> PeerStanding:
        """Return the standing of one peer. Raises PeerNotFound."""
        peer = await self._peers.get(name)
        if peer is None:
            raise PeerNotFound(f"there is no peer {name!r}")
        links = await self._links.all(name)
        return (await self._read([peer]))[0]._replace(links=links.get(name, ()))

    async def all(self) -> list[PeerStanding]:
        """Return the standing of all peers, by name, without their links."""
        return await self._read(await self._peers.all())

    async def with_links(self) -> list[PeerStanding]:
        """Return the standing of all peers, by name, with their links."""
        links = await self._links.all()
        return [one._replace(links=links.get(one.peer.name, ())) for one in await self.all()]

    async def _read(self, peers: list[Peer]) -> list[PeerStanding]:
        found = [PeerStanding(peer, []) for peer in peers]
        for cloud_name in await self._scheduler.names() if peers else []:
            try:
                cloud = await self._scheduler.state(cloud_name)
            except LogNewer:  # what concerns all clouds tells of those that can be read
                continue
            for one in found:
                standing = cloud.jobs.standings.get(one.peer.name)
                if standing is not None:
                    one.clouds.append(CloudStanding(cloud_name, standing, hosted_use(cloud, one.peer.name)))
        return found


class Breaker:
    """Pauses peers that do not keep what they promise, and lets them try again an hour later."""

    def __init__(self, clouds: Clouds, states: States, peers: PeerStore, now: Callable[[], datetime]) -> None:
        self._clouds, self._states, self._peers, self._now = clouds, states, peers, now

    async def judge_peers(self) -> int:
        """Look at all peers; return how many were paused or resumed."""
        peers = await self._peers.all()
        known, changed = [{**one.jobs.standings} async for one in self._readable()] if peers else [], 0
        for peer in peers:
            if peer.paused_because is None:
                why = broken(_fates(peer, known))
                if why is not None:
                    logger.warning("peer %s is paused: %s", peer.name, why)
                    changed += await self._peers.pause_running(peer.name, why, BREAKER)
            elif peer.paused_by == BREAKER and peer.paused_at is not None and self._now() >= peer.paused_at + HALF_OPEN:
                logger.warning("peer %s is offered jobs again, an hour after it was paused", peer.name)
                changed += await self._peers.pause(peer.name, None, None) is not None
        await self._tell()
        return changed

    async def _tell(self) -> None:
        """Write down in the log of each cloud which of the peers that it knows were paused or resumed since."""
        peers = await self._peers.all()
        for cloud_id in (await self._clouds.list()).values() if peers else ():
            with suppress(LogNewer, FormatNotInForce):
                if decide_pauses(await self._states.current(cloud_id), peers, 0):
                    await self._states.appender(cloud_id).append_decided(partial(self._pauses, peers))

    async def _pauses(self, peers: Sequence[Peer], cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
        at_us = cloud.present_us(from_datetime(self._now()))
        return [cloud.apply(event) for event in decide_pauses(cloud, peers, at_us)]

    async def _readable(self) -> AsyncIterator[Cloud]:
        """Yield the state of each cloud that no newer version has written to."""
        for cloud_id in (await self._clouds.list()).values():
            with suppress(LogNewer):
                yield await self._states.current(cloud_id)


def _fates(peer: Peer, clouds: Iterable[Mapping[str, PeerTally]]) -> list[AwardFate]:
    from_us = from_datetime(peer.judged_from)
    standings = [cloud.get(peer.name) for cloud in clouds]
    found = [fate for one in standings if one is not None for fate in one.recent if fate.at_us >= from_us]
    return sorted(found, key=lambda fate: fate.at_us)
