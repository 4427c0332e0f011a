"""The part of a cloud's state that holds the running instances, their nodes and their rows in the compiled form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import sub
from typing import Any

import numpy as np

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.values import Market, Resources
from app.engine.cloud.head import Head
from app.engine.cloud.nodes import Flavors, Nodes, plus
from app.engine.cloud.records import FIRST_ROWS, Facts, Fold, Room, Running, Undo
from app.engine.cluster import Cluster, Ints, empty_cluster, place, place_on_demand, release
from app.engine.exposure import exposure


class Instances:
    """The running instances by id. `on_demand` is the sum of the resources that on-demand instances use."""

    def __init__(self, room: Room, head: Head, nodes: Nodes, flavors: Flavors) -> None:
        self.running: dict[str, Running] = {}
        self.on_demand = Resources(0)
        self._room, self._head, self._nodes, self._flavors = room, head, nodes, flavors
        self._rows: list[str | None] = [None] * FIRST_ROWS
        self._free_rows = list(range(FIRST_ROWS - 1, -1, -1))
        self._victims = np.empty(FIRST_ROWS, np.int64)
        self._promises = np.zeros(FIRST_ROWS)

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {InstanceStarted: self._start, InstanceStopped: self._end, InstanceEvicted: self._end}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        by_age = sorted(self.running.values(), key=lambda running: running.seq)
        return {"running": [replace(running, row=0) for running in by_age]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts, with newly chosen rows."""
        for running in facts.running:
            self._enter(replace(running, row=self._take_row()))

    def demand_of(self, instance_id: str) -> Ints:
        """Return a running instance's demand in its compiled form (R)."""
        return self._flavors.by_name[self.running[instance_id].flavor].demand

    def on_node(self, node: str) -> list[Running]:
        """Return the instances running on the node, oldest first."""
        rows = np.flatnonzero(self._room.cluster.node_of == self._nodes.by_name[node].index).tolist()
        return sorted((self.running[name] for name in self._at(rows)), key=lambda running: running.seq)

    def plan(self, demand: Ints, now_us: int, code: int) -> tuple[int, tuple[str, ...]]:
        """Return the index of the node for an on-demand start, and its victims, youngest first."""
        node, count = place_on_demand(self._room.cluster, demand, now_us, code, self._victims)
        return node, self._at(self._victims[:count].tolist())

    def exposure(self, probability: float, room: Ints, now_us: int, age_us: int, demand: Ints) -> tuple[float, float]:
        """Return the charges and the share that engine.exposure computes for a class's running instances."""
        return exposure(self._room.cluster, self._promises, probability, room, now_us, age_us, demand)

    def _at(self, rows: Iterable[int]) -> tuple[str, ...]:
        return tuple(name for row in rows if (name := self._rows[row]) is not None)

    def _start(self, event: InstanceStarted) -> Undo:
        self._enter(
            Running(
                event.instance_id,
                self._head.seq,
                event.at_us,
                event.market,
                event.flavor,
                event.node,
                event.lifetime_us,
                event.probability if event.basis is None else event.basis.probability,
                self._take_row(),
            )
        )
        return lambda: self._forget(event.instance_id)

    def _end(self, event: InstanceStopped | InstanceEvicted) -> Undo:
        running = self._leave(event.instance_id)
        return lambda: self._reenter(running)

    def _forget(self, instance_id: str) -> None:
        self._leave(instance_id)

    def _reenter(self, running: Running) -> None:
        self._free_rows.remove(running.row)
        self._enter(running)

    def _enter(self, running: Running) -> None:
        row, cluster, flavor = running.row, self._room.cluster, self._flavors.by_name[running.flavor]
        self._rows[row] = running.instance_id
        self.running[running.instance_id] = running
        cluster.demand[row] = flavor.demand
        cluster.born[row] = running.seq
        cluster.deadline_us[row] = running.deadline_us
        cluster.is_spot[row] = running.market is Market.SPOT
        self._promises[row] = running.probability or 0.0
        if running.market is Market.ON_DEMAND:
            self.on_demand = plus(self.on_demand, flavor.resources)
        place(cluster, row, self._nodes.by_name[running.node].index)

    def _leave(self, instance_id: str) -> Running:
        running = self.running.pop(instance_id)
        release(self._room.cluster, running.row)
        if running.market is Market.ON_DEMAND:
            self.on_demand = _minus(self.on_demand, self._flavors.by_name[running.flavor].resources)
        self._rows[running.row] = None
        self._free_rows.append(running.row)
        return running

    def _take_row(self) -> int:
        if not self._free_rows:
            self._grow()
        return self._free_rows.pop()

    def _grow(self) -> None:
        count, cluster = len(self._rows), self._room.cluster
        more = empty_cluster(0, count, len(Resources._fields))
        grown = [np.concatenate([old, new]) for old, new in zip(cluster[2:], more[2:], strict=True)]
        self._room.cluster = Cluster(cluster.free, cluster.is_open, *grown)
        self._promises = np.concatenate([self._promises, np.zeros(count)])
        self._rows += [None] * count
        self._free_rows += range(2 * count - 1, count - 1, -1)
        self._victims = np.empty(2 * count, np.int64)


def _minus(some: Resources, less: Iterable[int]) -> Resources:
    return Resources(*map(sub, some, less))
