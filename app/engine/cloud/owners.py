"""The part of a cloud's state that holds what each owner's spot instances come to, and the quotas that are its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from app.domain.events import (
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    QuotaRemoved,
    QuotaSet,
)
from app.domain.values import EvictionReason, Market
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, Nodes
from app.engine.cloud.owner_rows import NOBODY
from app.engine.cloud.records import Facts, Fold, OwnerAccount, Quota, Room, Running, Undo
from app.engine.cluster import NEVER_US, NO_NODE, place, release
from app.engine.displacing import displace


class Owners:
    """The accounts of all owners. It folds an event before the instances do: it reads what ran before an end."""

    def __init__(self, room: Room, instances: Instances, nodes: Nodes, flavors: Flavors) -> None:
        self.accounts: dict[str, OwnerAccount] = {}
        self.quotas: dict[str, Quota] = {}
        self._room, self._instances, self._nodes, self._flavors = room, instances, nodes, flavors

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
            QuotaSet: self._set,
            QuotaRemoved: self._remove,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"owners": sorted(self.accounts.items()), "quotas": sorted(self.quotas.items())}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.accounts |= dict(facts.owners)
        self.quotas |= dict(facts.quotas)

    def overrunning_now(self, now_us: int) -> Callable[[], dict[str, tuple[int, int, int]]]:
        """Return a function that counts what overruns now by owner: instances, cores, core-microseconds; on any thread.

        Owners without any are left out.
        """
        return self._instances.owner_rows.overrunning_now(self._room.copy(), now_us)

    def borne_by(self, owner: str, probability: float, stratum: int, now_us: int) -> float:
        """Return the risk that an owner's running instances with this promise bear in a stratum."""
        rows, deadlines_us = self._instances.owner_rows, self._room.cluster.deadline_us
        return self._instances.bearers.borne_by(
            deadlines_us, rows.owners, rows.number(owner), probability, stratum, now_us
        )

    def overrunning_cores(self, owner: str, now_us: int) -> int:
        """Return the cores of an owner's spot instances that overrun."""
        found = self._instances.owner_rows.overrunning_now(self._room.cluster, now_us)()
        return found.get(owner, (0, 0, 0))[1]

    def displace(self, flavor: str, now_us: int) -> tuple[str | None, tuple[str, ...]]:
        """Return the node for a spot start that fits nowhere, and the overrunning instances that make room for it.

        (None, ()) if they cannot.
        """
        demand, cluster = self._flavors.by_name[flavor].demand, self._room.cluster
        victims = np.empty(len(cluster.node_of), np.int64)
        node, count = displace(cluster, demand, now_us, victims)
        return (
            (None, ()) if node == NO_NODE else (self._nodes.names[node], self._instances.at(victims[:count].tolist()))
        )

    @contextmanager
    def without(self, names: Iterable[str]) -> Iterator[None]:
        """Let the room of these instances be free within the block."""
        cluster, rows = self._room.cluster, [row for name in names for row in self._instances.running[name].rows]
        nodes = [int(cluster.node_of[row]) for row in rows]
        for row in rows:
            release(cluster, row)
        try:
            yield
        finally:
            for row, node in zip(rows, nodes, strict=True):
                place(cluster, row, node)

    def enter(self, run: Sequence[InstanceStarted | InstanceStopped]) -> Undo:
        """Count starts and stops that follow each other, before the instances fold them."""
        before, started = self.accounts.copy(), dict[str, InstanceStarted]()
        for event in run:
            if isinstance(event, InstanceStarted):
                started[event.instance_id] = event
                self._start(event)
            elif (start := started.pop(event.instance_id, None)) is not None:
                cores = start.count * self._cores(start.flavor)
                self._count_end(start.market, cores, start.owner, _deadline_us(start), event)
            else:
                self._stop(event)
        return lambda: self._reset(before)

    def _reset(self, accounts: dict[str, OwnerAccount]) -> None:
        self.accounts.clear()
        self.accounts.update(accounts)

    def _start(self, event: InstanceStarted) -> Undo | None:
        if event.market is not Market.SPOT:
            return None
        return self._add(event.owner, running=1, cores=event.count * self._cores(event.flavor), admitted=1)

    def _stop(self, event: InstanceStopped) -> Undo | None:
        return self._end_of(self._instances.running[event.instance_id], event)

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        return self._end_of(self._instances.running[event.instance_id], event)

    def _end_of(self, running: Running, event: InstanceStopped | InstanceEvicted) -> Undo | None:
        cores = running.count * self._cores(running.flavor)
        return self._count_end(running.market, cores, running.owner, running.deadline_us, event)

    def _count_end(
        self,
        market: Market,
        cores: int,
        owner: str | None,
        deadline_us: int,
        event: InstanceStopped | InstanceEvicted,
    ) -> Undo | None:
        if market is not Market.SPOT:
            return None
        over_us = max(event.at_us - deadline_us, 0)
        evicted = isinstance(event, InstanceEvicted) and event.reason is not EvictionReason.DRILL
        return self._add(
            owner,
            running=-1,
            cores=-cores,
            evicted=int(evicted and not over_us),
            overran=int(over_us > 0),
            overrun_core_us=cores * over_us,
            overrun_evicted=int(evicted and over_us > 0),
        )

    def _cores(self, flavor: str) -> int:
        return self._flavors.by_name[flavor].resources.cores

    def _add(self, owner: str | None, **more: int) -> Undo:
        name = NOBODY if owner is None else owner
        old = self.accounts.get(name)
        account = old or OwnerAccount()
        self.accounts[name] = account._replace(**{field: getattr(account, field) + by for field, by in more.items()})
        return lambda: _put_back(self.accounts, name, old)

    def _set(self, event: QuotaSet) -> Undo:
        old = self.quotas.get(event.owner)
        self.quotas[event.owner] = Quota(event.cores, event.share)
        return lambda: _put_back(self.quotas, event.owner, old)

    def _remove(self, event: QuotaRemoved) -> Undo:
        old = self.quotas.pop(event.owner, None)
        return lambda: _put_back(self.quotas, event.owner, old)


def _deadline_us(start: InstanceStarted) -> int:
    return NEVER_US if start.lifetime_us is None else start.at_us + start.lifetime_us


def _put_back(values: dict[str, Any], name: str, old: object) -> None:
    if old is None:
        values.pop(name, None)
    else:
        values[name] = old
