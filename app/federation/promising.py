"""Promises: a host's forecast for instances that a peer would start there now, to plan with. Nothing is held.

A peer that is paused or does not answer costs a plan nothing but its place in it.
"""

from __future__ import annotations

from urllib.parse import urlencode

from app.domain.errors import ClockExternal, NotAPeer, PeerNotFound
from app.domain.values import Clock, Resources
from app.federation.peering import quota_of
from app.federation.rules.promises import NoPromise, PeerPromise, Unpromised, read_promise
from app.federation.rules.standings import hosted_use
from app.federation.store import PeerStore
from app.forecasts.present import present_survival
from app.forecasts.table_reads import TableReads
from app.platform.outbound.asking import Asker, Inquiry
from app.platform.outbound.connection import NoAnswer
from app.scheduling.scheduler import Scheduler

CONFIDENCE = 0.95
_OK = 200

__all__ = ["NoPromise", "PeerPromise", "PromiseToPeers", "PromisesOfPeers", "Unpromised"]


class PromiseToPeers:
    """The host's side."""

    def __init__(self, scheduler: Scheduler, peers: PeerStore, tables: TableReads) -> None:
        self._scheduler, self._peers, self._tables = scheduler, peers, tables

    async def promise(self, cloud_name: str, origin: str, demand: Resources) -> PeerPromise | Unpromised:
        """Return the survival of instances of a size. Raises NotAPeer for a stranger, ClockExternal."""
        peer = await self._peers.get(origin)
        if peer is None:
            raise NotAPeer(f"no peer is called {origin!r} here")
        table = await self._tables.newest(cloud_name)
        cloud, now_us = await self._scheduler.present(cloud_name)
        if cloud.policy.clock is Clock.EXTERNAL:
            raise ClockExternal("a cloud with an external clock runs no jobs of peers")
        quota = quota_of(peer)
        if quota is None:
            return Unpromised.PEER_PAUSED
        flavor = next((one.name for one in cloud.flavors.values() if one.resources == demand), None)
        if flavor is None:
            return Unpromised.NO_FLAVOR
        if table is None:
            return Unpromised.NO_FORECAST
        found = await present_survival(table, cloud, flavor, now_us, CONFIDENCE)
        use, each = hosted_use(cloud, origin), cloud.flavors[flavor].resources.cores
        slots = min(found.slots, max(use.limit(quota.cores_share) - use.cores, 0) // each)
        if not slots:
            return Unpromised.NO_ROOM
        times_us, alive = found.times_us.tolist(), found.alive.tolist()
        return PeerPromise(slots, times_us, alive, found.windows, found.at_least, quota.lifetime_us)


class PromisesOfPeers:
    """The origin's side."""

    def __init__(self, peers: PeerStore, asker: Asker) -> None:
        self._peers, self._asker = peers, asker

    async def of(self, name: str, demand: Resources) -> PeerPromise | NoPromise:
        """Ask a peer what it promises. The asker bounds how long and how much it may answer. Raises PeerNotFound."""
        peer = await self._peers.get(name)
        if peer is None:
            raise PeerNotFound(f"there is no peer {name!r}")
        if peer.paused_because is not None:
            return NoPromise(Unpromised.PEER_PAUSED, f"it is paused here: {peer.paused_because}")
        url = f"{peer.url}/v1/clouds/{peer.cloud}/promise?{urlencode(demand._asdict())}"
        try:
            reply = await self._asker.ask(Inquiry(name, "GET", url, peer.secret))
        except NoAnswer as error:
            return NoPromise(Unpromised.PEER_UNREACHABLE, str(error))
        if reply.status != _OK:
            return NoPromise(Unpromised.PEER_REFUSED, f"it answered {reply.status}")
        return read_promise(reply.body)
