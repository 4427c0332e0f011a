"""The part of a cloud's state that lets running instances have their room on other nodes, or proposes that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from app.domain.events import InstanceMoved
from app.domain.values import ProposedMove, Resources
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, Nodes
from app.engine.cloud.records import Facts, Fold, Room, Running, Undo
from app.engine.cloud.told import Handovers
from app.engine.cluster import UNCOUNTED, Ints, place, release, slots_of_each
from app.engine.eviction import clear_for, spot_rows_by_youth
from app.engine.moving import plan_moves


class Proposal(NamedTuple):
    """A flavor without a slot, and moves after which an on-demand start of it evicts nobody. It then runs on `node`."""

    flavor: str
    node: str
    moves: tuple[ProposedMove, ...]


class Moves:
    """Moves running instances, which are no groups. Their rows stay, so age and rank do too."""

    def __init__(self, room: Room, instances: Instances, nodes: Nodes, flavors: Flavors, handovers: Handovers) -> None:
        self._room, self._instances, self._nodes, self._flavors = room, instances, nodes, flavors
        self._handovers = handovers

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {InstanceMoved: self._move}

    def facts(self) -> Mapping[str, Any]:
        """Return nothing: the instances tell where they run."""
        return {}

    def restore(self, facts: Facts) -> None:
        """Load nothing."""

    def fits_on(self, flavor: str, node: str) -> bool:
        """Return True if a node has room for an instance of this flavor, open or not."""
        free = self._room.cluster.free[self._nodes.by_name[node].index]
        return bool((self._flavors.by_name[flavor].demand <= free).all())

    def clear(
        self, node: str, demand: Sequence[int], now_us: int, capacity: Resources | None = None
    ) -> tuple[str, ...]:
        """Return the spot instances that a node must lose for a demand, youngest first; all if that is not enough.

        With a `capacity`, as if the node had that one.
        """
        there = self._nodes.by_name[node].index
        room = self._room.cluster.free[there].copy()
        if capacity is not None:
            room += np.array([size or UNCOUNTED for size in capacity], np.int64) - self._room.sizes[there]
        victims = np.empty(len(self._room.cluster.node_of), np.int64)
        count = clear_for(self._room.cluster, np.array(demand, np.int64), now_us, there, room, victims)
        return self._instances.rows.at(victims[:count].tolist())

    def proposals_now(self, now_us: int) -> Callable[[], list[Proposal]]:
        """Return a function that finds moves in place of evictions, as things are now, on any thread.

        Each proposal reckons with those before it. The flavors that ask for most come first. What evicted instances may
        still use until their deadlines is no room for anybody.
        """
        cluster, ids, names = self._room.copy(), self._instances.rows.ids(), [*self._nodes.names]
        flavors = sorted(self._flavors.by_name.values(), key=lambda one: one.resources, reverse=True)
        leaving = self._leaving(now_us)

        def find() -> list[Proposal]:
            demands = np.array([one.resources for one in flavors], np.int64)
            by_youth, movers = spot_rows_by_youth(cluster, now_us), np.empty(len(ids), np.int64)
            slots, found = slots_of_each(cluster, demands), []
            for kind, flavor in enumerate(flavors):
                before = cluster.node_of.copy()
                count = plan_moves(cluster, demands, kind, by_youth, leaving, now_us, slots, movers)
                moved = [(row, names[before[row]], names[cluster.node_of[row]]) for row in movers[:count].tolist()]
                if moved:
                    steps = tuple(ProposedMove(ids[row] or "", *places) for row, *places in moved)
                    found.append(Proposal(flavor.name, steps[0].node, steps))
            return found

        return find if flavors else list

    def _leaving(self, now_us: int) -> Ints:
        """Return what evicted instances may still use of each node (N, R)."""
        leaving = np.zeros_like(self._room.cluster.free)
        for one in self._handovers.by_id.values():
            for node in one.nodes or (one.node,):
                if one.deadline_us > now_us and node in self._nodes.by_name:
                    leaving[self._nodes.by_name[node].index] += self._flavors.by_name[one.flavor].demand
        return leaving

    def _move(self, event: InstanceMoved) -> Undo:
        old = self._instances.running[event.instance_id]
        flavor = old.flavor if event.as_flavor is None else self._flavors.by_name[event.as_flavor].name
        self._put(replace(old, node=self._nodes.by_name[event.node].name, flavor=flavor))
        return lambda: self._put(old)

    def _put(self, running: Running) -> None:
        release(self._room.cluster, running.row)
        self._instances.put_moved(running)
        place(self._room.cluster, running.row, self._nodes.by_name[running.node].index)
