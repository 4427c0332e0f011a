"""Events of a cloud's supply: nodes and flavors."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.events.kinds import event
from app.domain.values import Resources


@event("node_added", subject="node")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    at_us: int
    node: str
    capacity: Resources


@event("node_drained", subject="node")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    at_us: int
    node: str


@event("node_opened", subject="node")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOpened:
    """A drained node takes placements again."""

    at_us: int
    node: str


@event("node_removed", subject="node")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRemoved:
    at_us: int
    node: str


@event("node_resized", since=7, subject="node")
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResized:
    """The node has another capacity from here on. What runs there fits in it."""

    at_us: int
    node: str
    capacity: Resources


@event("flavor_added", subject="flavor")
@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorAdded:
    """A flavor was added. Flavors are never changed or removed, so the history stays readable."""

    at_us: int
    flavor: str
    demand: Resources


NodeEvent = NodeAdded | NodeDrained | NodeOpened | NodeRemoved | NodeResized | FlavorAdded
