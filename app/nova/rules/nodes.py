"""Rules of nodes: Placement's providers with the cloud's trait are the nodes of the cloud, as Nova's services let."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from app.domain.values import Resources


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node's capacity, and whether it takes placements."""

    capacity: Resources
    is_open: bool


class NodeStepKind(StrEnum):
    """The kinds of changes of a node in Tenure."""

    ADD = "add"
    RESIZE = "resize"
    DRAIN = "drain"
    OPEN = "open"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A change of a node in Tenure."""

    kind: NodeStepKind
    node: str
    capacity: Resources | None = None


def plan_nodes(wanted: Mapping[str, NodeFacts], known: Mapping[str, NodeFacts]) -> list[NodeStep]:
    """Return the changes after which the nodes of Tenure are those of Nova. None is removed: see `lost_nodes`."""
    steps = []
    for name, facts in wanted.items():
        if facts.capacity.cores < 1:
            continue
        before = known.get(name)
        if before is None:
            steps.append(NodeStep(NodeStepKind.ADD, name, facts.capacity))
            before = NodeFacts(facts.capacity, is_open=True)
        if before.capacity != facts.capacity:
            steps.append(NodeStep(NodeStepKind.RESIZE, name, facts.capacity))
        if before.is_open != facts.is_open:
            steps.append(NodeStep(NodeStepKind.OPEN if facts.is_open else NodeStepKind.DRAIN, name))
    return steps


def lost_nodes(wanted: Mapping[str, NodeFacts], known: Mapping[str, NodeFacts]) -> AbstractSet[str]:
    """Return the nodes that Nova does not have any more; none if it has no node at all, which is hardly so."""
    return known.keys() - wanted.keys() if wanted else frozenset()
