"""The places where a plan's jobs could run: pools of venues, flavors of clouds, and machines with a provider's rate."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isnan, nan

import numpy as np

from app.domain.errors import FlavorNotFound, PlanInvalid, TableNotFound
from app.domain.flavors import told_flavors
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Resources
from app.federation.promising import NoPromise, PeerPromise, PromisesOfPeers
from app.forecasts.present import present_survival
from app.forecasts.table_reads import TableReads
from app.planning.asking import AskedCloud, AskedPeer, AskedRate, PlanRequest
from app.scheduling.scheduler import Scheduler
from app.venues.quoting import WINDOW_US
from app.venues.reads import StoredPool, VenueHistory, VenueReads
from app.venues.rules.bounds import FIRST_EFFECT
from app.venues.rules.history import PoolName
from app.venues.rules.observed import ObservedPools
from app.venues.rules.planned import PlanPool, PoolCurve, SurvivalSource, curve_of_rate
from app.venues.rules.quotes import CONFIDENCE, LEAST_HISTORY_US, known_us
from app.venues.rules.training import LEAST_KNOWN_US
from app.venues.rules.types import MachineType

MOST_POOLS = 2_000
_FIRST_US, _LONGEST_US, _OBSERVED_POINTS = 60 * SECOND_US, 90 * DAY_US, 24
_REASONS_SAID = 5
_HELPS = {
    "type_unknown": "import its machine types with `tenure venue import --types`",
    "price_unknown": "import newer prices",
    "no_evidence": "tell what became of machines with `tenure venue observe`",
}
"""Ways to mend the reasons for which pools are left out."""
_MIB_PER_GIB = 1024.0


class PlaceKind(StrEnum):
    """The kinds of places; two of different kinds may have one name."""

    VENUE = "venue"
    CLOUD = "cloud"
    PEER = "peer"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Place:
    """A pool with its names: that of the venue, cloud, peer or rate in `place`; type, flavor or size in `kind`."""

    pool: PlanPool
    of: PlaceKind
    place: str
    zone: str
    kind: str
    product: str | None = None
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A place that the plan does not use, and why."""

    place: str
    pool: str
    why: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class SeenVenue:
    """A venue as of its newest price."""

    name: str
    as_of_us: int
    is_stale: bool


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """All places of a request, those that were left out, the venues, machine types by name, and the currency."""

    places: list[Place]
    left_out: list[LeftOut]
    venues: list[SeenVenue]
    types: dict[str, MachineType]
    currency: str | None


Promises = Sequence[PeerPromise | NoPromise]
"""The promises of a request's peers, in its order."""


class PlanPlaces:
    """Finds places."""

    def __init__(self, venues: VenueReads, scheduler: Scheduler, tables: TableReads, promises: PromisesOfPeers) -> None:
        self._venues, self._scheduler, self._tables, self._promises = venues, scheduler, tables, promises

    async def ask_peers(self, request: PlanRequest) -> Promises:
        """Return what each peer of a request promises, in its order. All are asked at once. Raises PeerNotFound."""
        return await asyncio.gather(*(self._promises.of(one.peer, one.demand) for one in request.peers))

    async def find(self, request: PlanRequest, promised: Promises, at_us: int) -> KnownPlaces:
        """Return the places of a request. Raises PlanInvalid, and what is raised where one does not exist."""
        found = KnownPlaces([], [], [], {}, None)
        for name in request.venues:
            history = await self._venues.history(name, at_us)
            found = await asyncio.to_thread(_with_venue, found, history, request)
        found.places.extend([await self._cloud(one, request.cap) for one in request.clouds])
        for asked, told in zip(request.peers, promised, strict=True):
            if isinstance(told, NoPromise):
                found.left_out.append(LeftOut(asked.peer, _size(asked.demand), told.why, told.detail))
            else:
                found.places.append(_peer(asked, told, request.cap))
        found.places.extend(_rate(one, request.cap) for one in request.rates)
        if not found.places:
            raise PlanInvalid(f"none of the places can be planned with{_why_none(found.left_out)}")
        return found

    async def _cloud(self, asked: AskedCloud, cap: int | None) -> Place:
        """Return the instances of a flavor: their survival is the cloud's forecast, for its room now."""
        table = await self._tables.newest(asked.cloud)
        if table is None:
            raise TableNotFound(f"no table of quotes of cloud {asked.cloud!r} was published yet")
        cloud, now_us = await self._scheduler.present(asked.cloud)
        if asked.flavor not in cloud.flavors:
            known = told_flavors(cloud.flavors)
            raise FlavorNotFound(f"cloud {asked.cloud!r} has no flavor {asked.flavor!r}: there {known}")
        told = await present_survival(table, cloud, asked.flavor, now_us, CONFIDENCE)
        pool = PlanPool(
            f"cloud {asked.cloud}",
            _machine(asked.compute_units, cloud.flavors[asked.flavor].resources),
            SurvivalSource.QUANTILE_TABLE,
            steady=asked.price_per_core_hour * cloud.flavors[asked.flavor].resources.cores,
            curve=PoolCurve(told.times_us, told.alive, told.windows, told.at_least),
            cap=told.slots if cap is None else min(cap, told.slots),
        )
        return Place(pool, PlaceKind.CLOUD, asked.cloud, "", asked.flavor)


def _machine(units: float | None, size: Resources) -> MachineType:
    """Return an instance as a machine; without units it is as fast as whatever a job was measured on."""
    memory_gib = size.memory_mib / _MIB_PER_GIB if size.memory_mib else inf
    return MachineType(inf if units is None else units, memory_gib, nan)


def _size(demand: Resources) -> str:
    """Return the size of an instance in words: 2 cores, 4096 MiB."""
    words = [f"{demand.cores} core{'s' if demand.cores > 1 else ''}"]
    words += [f"{demand.memory_mib} MiB"] if demand.memory_mib else []
    words += [f"{demand.disk_gib} GiB disk"] if demand.disk_gib else []
    return ", ".join(words)


def _peer(asked: AskedPeer, told: PeerPromise, cap: int | None) -> Place:
    """Return the instances of a size at a peer: what it promises, and nothing beyond the longest that it lets run."""
    count = bisect_right(told.times_us, told.longest_us)
    times_us = np.array([*told.times_us[:count], told.longest_us + 1], np.int64)
    alive = np.array([*told.alive[:count], 0.0])
    pool = PlanPool(
        f"peer {asked.peer}",
        _machine(asked.compute_units, asked.demand),
        SurvivalSource.PEER_PROMISE,
        steady=asked.price_per_core_hour * asked.demand.cores,
        curve=PoolCurve(times_us, alive, told.windows, told.at_least),
        cap=told.slots if cap is None else min(cap, told.slots),
    )
    return Place(pool, PlaceKind.PEER, asked.peer, "", _size(asked.demand))


def _why_none(left_out: Sequence[LeftOut]) -> str:
    """Return the first reasons, and what helps, as the end of a sentence."""
    said = [f"{one.place} {one.pool}: {one.why.replace('_', ' ')}" for one in left_out[:_REASONS_SAID]]
    helps = [way for why, way in _HELPS.items() if any(one.why == why for one in left_out)]
    return f" ({'; '.join(said)}){''.join(f'; {way}' for way in helps)}" if said else ""


def _rate(asked: AskedRate, cap: int | None) -> Place:
    machine = MachineType(
        inf if asked.compute_units is None else asked.compute_units,
        inf if asked.memory_gib is None else asked.memory_gib,
        nan if asked.on_demand_price is None else asked.on_demand_price,
    )
    curve = curve_of_rate(asked.lost_in_a_month)
    group = f"{asked.name} {asked.zone}"
    pool = PlanPool(group, machine, SurvivalSource.PROVIDER_RATE, steady=asked.price, curve=curve, cap=cap)
    return Place(pool, PlaceKind.RATE, asked.name, asked.zone, asked.name)


def _with_venue(found: KnownPlaces, history: VenueHistory, request: PlanRequest) -> KnownPlaces:
    venue = history.venue
    if found.currency not in (None, venue.currency):
        raise PlanInvalid(f"venue {venue.name!r} has prices in {venue.currency}, and another in {found.currency}")
    left_out, places = [*found.left_out], [*found.places]
    for pool in history.pools:
        made = _pool(pool, history, request.cap) if len(places) < MOST_POOLS else "too_many"
        if isinstance(made, PlanPool):
            words = pool.name.zone, pool.name.instance_type, pool.name.product
            places.append(Place(made, PlaceKind.VENUE, venue.name, *words, history.is_stale))
        else:
            left_out.append(LeftOut(venue.name, f"{pool.name.zone} {pool.name.instance_type}", made))
    seen = [*found.venues, SeenVenue(venue.name, history.as_of_us, history.is_stale)]
    return KnownPlaces(places, left_out, seen, found.types | dict(history.types), venue.currency)


def _pool(pool: StoredPool, history: VenueHistory, cap: int | None) -> PlanPool | str:
    """Return a pool, or the reason for which it is left out."""
    machine, steps = history.types.get(pool.name.instance_type), history.prices.pools.get(pool.name)
    group = f"{history.venue.name} {pool.name.zone}"
    past = None if steps is None else steps.between(history.as_of_us - WINDOW_US, history.as_of_us + 1)
    if machine is None:
        return "type_unknown"
    if past is None or not len(past.price) or isnan(past.price[-1]):
        return "price_unknown"
    if history.observed is not None:
        return _observed(group, machine, float(past.price[-1]), history.observed, pool.name, cap) or "no_evidence"
    if past.end_us - int(past.at_us[0]) < LEAST_HISTORY_US:
        return "history_too_short"
    trained = history.trained if known_us(past, WINDOW_US) >= LEAST_KNOWN_US else None
    source = SurvivalSource.PRICE_CROSSING if trained is None else SurvivalSource.LEARNED
    return PlanPool(group, machine, source, past, cap=cap, trained=trained)


def _observed(
    group: str, machine: MachineType, price: float, observed: ObservedPools, name: PoolName, cap: int | None
) -> PlanPool | None:
    """Return a pool whose machines end for lack of capacity, at its price now; None without any evidence."""
    times_us = np.geomspace(_FIRST_US, _LONGEST_US, _OBSERVED_POINTS).astype(np.int64)
    told = [observed.survival(name, int(us), FIRST_EFFECT, CONFIDENCE) for us in times_us]
    known = [one for one in told if one is not None]
    if len(known) < len(told):
        return None
    middle = known[len(known) // 2]
    alive = np.minimum.accumulate(np.array([one.share for one in known]))
    curve = PoolCurve(times_us, alive, middle.windows, middle.at_least)
    return PlanPool(group, machine, SurvivalSource(middle.source.value), steady=price, curve=curve, cap=cap)


def pools_of(places: Sequence[Place]) -> list[PlanPool]:
    """Return the pools of places."""
    return [place.pool for place in places]
