"""The part of a cloud's state that holds its supply: nodes and flavors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import add, sub
from typing import Any

import numpy as np

from app.domain.events import FlavorAdded, NodeAdded, NodeDrained, NodeOpened, NodeRemoved, NodeResized
from app.domain.values import NodeStatus, Resources
from app.engine.cloud.records import Facts, Flavor, Fold, Node, Room, Undo
from app.engine.cluster import UNCOUNTED

FEWEST_GIVEN_UP = 1024
"""The number of places of removed nodes below which they are kept: giving them up costs a walk over all instances."""


class Nodes:
    """The nodes that are there by name, and the names at their places.

    A node that is added takes a new place behind all others, so places are in the order of additions. That of a removed
    node stays, closed, until `give_up_places`.
    """

    def __init__(self, room: Room) -> None:
        self.by_name: dict[str, Node] = {}
        self.names: list[str] = []
        self._room = room
        self._open_capacity: Resources | None = None

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            NodeAdded: lambda event: self._add(event.node, event.capacity),
            NodeDrained: self._to(NodeStatus.DRAINED),
            NodeOpened: self._to(NodeStatus.OPEN),
            NodeRemoved: lambda event: self._remove(event.node),
            NodeResized: lambda event: self._resize(event.node, event.capacity),
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"nodes": [replace(node, index=index) for index, node in enumerate(self.in_order())]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts. Room is taken later, when the instances are loaded."""
        for node in facts.nodes:
            self._add(node.name, node.capacity)
            self._put(node)

    def in_order(self) -> list[Node]:
        """Return the nodes in node order."""
        return sorted(self.by_name.values(), key=lambda node: node.index)

    def give_up_places(self) -> None:
        """Close the gaps that removed nodes have left, once they are many. Nothing may be left to undo."""
        if len(self.names) - len(self.by_name) <= max(FEWEST_GIVEN_UP, len(self.by_name)):
            return
        there = self.in_order()
        self._room.keep_places([node.index for node in there])
        self.names[:] = [node.name for node in there]
        self.by_name |= {node.name: replace(node, index=index) for index, node in enumerate(there)}

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

    @contextmanager
    def only(self, names: Sequence[str]) -> Iterator[None]:
        """Let only these nodes take placements within the block, of those that do; without names it may be any."""
        if not names:
            yield
            return
        is_open = self._room.cluster.is_open
        before, places = is_open.copy(), [self.by_name[name].index for name in names if name in self.by_name]
        is_open[:] = False
        is_open[places] = before[places]
        try:
            yield
        finally:
            is_open[:] = before

    def _add(self, name: str, capacity: Resources) -> Undo:
        self._room.add_place([size or UNCOUNTED for size in capacity])
        self.by_name[name] = Node(len(self.names), name, capacity, NodeStatus.OPEN)
        self.names.append(name)
        self._open_capacity = None
        return lambda: self._forget(name)

    def _forget(self, name: str) -> None:
        del self.by_name[name]
        self.names.pop()
        self._room.drop_last_place()
        self._open_capacity = None

    def _remove(self, name: str) -> Undo:
        node = self.by_name.pop(name)
        self._room.cluster.is_open[node.index] = False
        self._open_capacity = None
        return lambda: self._put(node)

    def _resize(self, name: str, capacity: Resources) -> Undo:
        old = self.by_name[name]
        self._room.resize(old.index, [size or UNCOUNTED for size in capacity])
        self._put(replace(old, capacity=capacity))

        def back() -> None:
            self._room.resize(old.index, [size or UNCOUNTED for size in old.capacity])
            self._put(old)

        return back

    def _to(self, status: NodeStatus) -> Callable[[NodeDrained | NodeOpened], Undo]:
        def fold(event: NodeDrained | NodeOpened) -> Undo:
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
