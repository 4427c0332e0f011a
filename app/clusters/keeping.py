"""Clusters that managers describe and tell of, and what is known of each: a fold of its events, kept up in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.clusters.described import ClusterSpec, spec_json, spec_of
from app.clusters.rules.told import CHECKPOINTS, ClusterPast, ToldEvent
from app.clusters.store.clusters import ClusterStore, KeyedEvent, ManagerLook, StoredCluster
from app.domain.errors import ClusterNotFound, TooManyClusters
from app.domain.paging import Page
from app.domain.times import SECOND_US, from_datetime
from app.platform.asked import TurnsAtEach
from app.scheduling.store.clouds import Clouds
from app.venues.reads import VenueReads

MOST_CLUSTERS = 100
_READ_AT_ONCE = 2
MANAGED_US = 30 * SECOND_US
"""A manager that has not told of a look for so long does not run, or cannot reach the service."""

__all__ = ["KeyedEvent", "ManagerLook", "StoredCluster"]


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """A cluster with its description and the fold of its events. now_us: the server's time at which it was read."""

    stored: StoredCluster
    spec: ClusterSpec
    past: ClusterPast
    now_us: int

    @property
    def look_age_us(self) -> int | None:
        """The time since the manager told of a look; None: it never did."""
        reported_at = self.stored.reported_at
        return None if reported_at is None else max(self.now_us - from_datetime(reported_at), 0)

    @property
    def is_managed(self) -> bool:
        """True if a manager told of a look lately, and the cluster is not deleted."""
        return self.past.deleted_us is None and self.look_age_us is not None and self.look_age_us <= MANAGED_US


class ClusterKeeper:
    """Clusters by name, at the server's clock. Raises ClusterNotFound for an unknown one, and LogUnavailable."""

    def __init__(self, store: ClusterStore, clouds: Clouds, venues: VenueReads, now_us: Callable[[], int]) -> None:
        self._store, self._clouds, self._venues, self._now_us = store, clouds, venues, now_us
        self._pasts = OrderedDict[int, ClusterPast]()
        self._turns = TurnsAtEach(_READ_AT_ONCE)

    async def put(self, name: str, spec: ClusterSpec) -> KnownCluster:
        """Describe a cluster, which is made if it is not there. The same description again changes nothing.

        Raises CloudNotFound for a pool of no cloud, VenueNotFound for one of no venue, and TooManyClusters.
        """
        for cloud in spec.clouds:
            await self._clouds.id_of(cloud)
        for venue in spec.venues:
            await self._venues.show(venue)
        stored = await self._store.put(name, spec_json(spec), MOST_CLUSTERS)
        if stored is None:
            raise TooManyClusters(f"{MOST_CLUSTERS} clusters are kept already; delete one")
        kind = "cluster_created" if stored.version == 1 else "spec_changed"
        event = ToldEvent(0, self._now_us(), kind, {"version": stored.version})
        await self.report(name, [KeyedEvent(f"description-{stored.version}", event)], None)
        return await self.show(name)

    async def show(self, name: str) -> KnownCluster:
        """Return a cluster with all that is known of it."""
        return await self._known(await self._stored(name))

    async def list(self, marker: str | None, limit: int) -> Page[KnownCluster]:
        """Return clusters by name."""
        found = await self._store.page(marker or "", limit + 1)
        known = [await self._known(stored) for stored in found[:limit]]
        return Page(known, found[limit - 1].name if len(found) > limit else None)

    async def delete(self, name: str) -> None:
        """Remove a cluster with all that was told of it. Its nodes are not touched."""
        if not await self._store.delete(name):
            raise _none(name)

    async def report(self, name: str, events: Sequence[KeyedEvent], look: ManagerLook | None) -> tuple[int, int]:
        """Add what a manager tells; return how many events were new, and the last seq."""
        done = await self._store.add(name, events, look)
        if done is None:
            raise _none(name)
        return done

    async def events(self, name: str, after_seq: int, limit: int) -> Page[KeyedEvent]:
        """Return the next events after a seq. Of very many, the oldest are not kept."""
        return await self._events(name, after_seq, limit, None)

    async def checkpoints(self, name: str, after_seq: int, limit: int) -> Page[KeyedEvent]:
        """Return the next events that tell of a checkpoint after a seq."""
        return await self._events(name, after_seq, limit, [*CHECKPOINTS])

    async def _events(self, name: str, after_seq: int, limit: int, kinds: Sequence[str] | None) -> Page[KeyedEvent]:
        return await self._store.events_page((await self._stored(name)).id, after_seq, limit, kinds)

    async def _stored(self, name: str) -> StoredCluster:
        stored = await self._store.get(name)
        if stored is None:
            raise _none(name)
        return stored

    async def _known(self, stored: StoredCluster) -> KnownCluster:
        """Return a cluster with its fold, brought up to the last event that its row tells of."""
        past = self._pasts.setdefault(stored.id, ClusterPast())
        self._pasts.move_to_end(stored.id)
        while len(self._pasts) > MOST_CLUSTERS:
            self._pasts.popitem(last=False)
        if past.seq < stored.last_seq:
            async with self._turns.taken(stored.id):
                await self._read_on(past, stored)
        return KnownCluster(stored, spec_of(stored.spec), past, self._now_us())

    async def _read_on(self, past: ClusterPast, stored: StoredCluster) -> None:
        if past.seq < stored.last_seq:  # else somebody else has had a turn
            async for events in self._store.events(stored.id, past.seq):
                past.add(one.event for one in events)


def _none(name: str) -> ClusterNotFound:
    return ClusterNotFound(f"there is no cluster {name!r}")
