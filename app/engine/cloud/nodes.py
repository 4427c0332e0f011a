"""The part of a cloud's state that holds its supply: nodes and flavors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import add, sub
from typing import Any

import numpy as np

from app.domain.events import FlavorAdded, NodeAdded, NodeDrained, NodeOpened, NodeRemoved
from app.domain.values import NodeStatus, Resources
from app.engine.cloud.records import Facts, Flavor, Fold, Node, Room, Undo
from app.engine.cluster import UNCOUNTED


class Nodes:
    """The nodes by name, and the order in which they were added."""

    def __init__(self, room: Room) -> None:
        self.by_name: dict[str, Node] = {}
        self.order: list[str] = []
        self._room = room
        self._open_capacity: Resources | None = None

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            NodeAdded: lambda event: self._add(event.node, event.capacity),
            NodeDrained: self._to(NodeStatus.DRAINED),
            NodeOpened: self._to(NodeStatus.OPEN),
            NodeRemoved: self._to(NodeStatus.REMOVED),
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"node_order": tuple(self.order), "nodes": {**self.by_name}}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts. Room is taken later, when the instances are loaded."""
        for index, name in enumerate(facts.node_order):
            node = facts.nodes[name]
            self._add(name, node.capacity)
            # The name may belong to a newer node by now; the place of the removed one stays occupied.
            self._put(node if node.index == index else replace(node, index=index, status=NodeStatus.REMOVED))

    def free(self, name: str) -> Resources:
        """Return the free part of a node's capacity; 0 for a resource that the node does not count."""
        found = self.by_name[name]
        left = self._room.cluster.free[found.index].tolist()
        return Resources(*(room if counted else 0 for room, counted in zip(left, found.capacity, strict=True)))

    def open_capacity(self) -> Resources:
        """Return the total capacity of the open nodes; UNCOUNTED or more if one of them does not count a resource."""
        if self._open_capacity is None:
            self._open_capacity = Resources(0)
            for node in self.by_name.values():
                if node.status is NodeStatus.OPEN:
                    self._open_capacity = plus(self._open_capacity, [size or UNCOUNTED for size in node.capacity])
        return self._open_capacity

    def _add(self, name: str, capacity: Resources) -> Undo:
        cluster, old = self._room.cluster, self.by_name.get(name)
        room = np.array([[size or UNCOUNTED for size in capacity]], np.int64)
        self._room.cluster = cluster._replace(
            free=np.concatenate([cluster.free, room]), is_open=np.append(cluster.is_open, True)
        )
        self._room.sizes = np.concatenate([self._room.sizes, room])
        self.by_name[name] = Node(len(self.order), name, capacity, NodeStatus.OPEN)
        self.order.append(name)
        self._open_capacity = None
        return lambda: self._forget(name, old)

    def _forget(self, name: str, old: Node | None) -> None:
        del self.by_name[name]
        if old is not None:
            self.by_name[name] = old
        self._open_capacity = None
        self.order.pop()
        cluster = self._room.cluster
        self._room.cluster = cluster._replace(free=cluster.free[:-1].copy(), is_open=cluster.is_open[:-1].copy())
        self._room.sizes = self._room.sizes[:-1].copy()

    def _to(self, status: NodeStatus) -> Callable[[NodeDrained | NodeOpened | NodeRemoved], Undo]:
        def fold(event: NodeDrained | NodeOpened | NodeRemoved) -> Undo:
            old = self.by_name[event.node]
            self._put(replace(old, status=status))
            return lambda: self._put(old)

        return fold

    def _put(self, node: Node) -> None:
        self.by_name[node.name] = node
        self._room.cluster.is_open[node.index] = node.status is NodeStatus.OPEN
        self._open_capacity = None


class Flavors:
    """The flavors by name. They are never changed or removed."""

    def __init__(self) -> None:
        self.by_name: dict[str, Flavor] = {}

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {FlavorAdded: lambda event: self._add(event.flavor, event.demand)}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"flavors": [(flavor.name, flavor.resources) for flavor in self.by_name.values()]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        for name, resources in facts.flavors:
            self._add(name, resources)

    def _add(self, name: str, resources: Resources) -> Undo:
        self.by_name[name] = Flavor(name, resources, np.array(resources, np.int64))
        return lambda: self._forget(name)

    def _forget(self, name: str) -> None:
        del self.by_name[name]


def plus(some: Resources, more: Iterable[int]) -> Resources:
    """Return the sum of two resource vectors."""
    return Resources(*map(add, some, more))


def minus(some: Resources, less: Iterable[int]) -> Resources:
    """Return the difference of two resource vectors."""
    return Resources(*map(sub, some, less))
