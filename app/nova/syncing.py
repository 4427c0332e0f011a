"""Keeps nodes and flavors of the cloud in Tenure as Placement and Nova have them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from app.domain.values import Resources
from app.nova.books import TenureSide
from app.nova.cloud import NovaCloud, Provider
from app.nova.rules.nodes import NodeFacts, NodeStep, NodeStepKind, lost_nodes, plan_nodes
from app.nova.rules.sizes import demand_of, plain_name
from tenure_client import ServiceRefused

logger = logging.getLogger(__name__)
_MOST_READ_AGAIN = 50
"""A provider's generation changes with each server that comes or goes, so on a large cloud few are read each time."""
_GONE_AFTER_S = 3.0
_LOST_AFTER_S = 30.0
"""Nova leaves out the hosts of a cell whose database does not answer, while Placement still has their providers."""


class _ReadCapacity(NamedTuple):
    """A provider's capacity, its generation then, and when it was read."""

    generation: int
    at_s: float
    capacity: Resources


class Syncing:
    """Compares nodes and flavors. A node is removed if it is missing for a while: an answer may be wrong."""

    def __init__(self, nova: NovaCloud, books: TenureSide, trait: str) -> None:
        self._nova, self._books, self._trait = nova, books, trait
        self._capacities: dict[str, _ReadCapacity] = {}
        self._missing_since_s: dict[str, float] = {}
        self._refused: dict[str, str] = {}

    def nodes(self) -> float | None:
        """Bring the nodes of Tenure up to those of Placement. Return the seconds after which a missing one is to go."""
        hypervisors, providers = self._nova.hypervisors(), self._nova.providers(self._trait)
        wanted, known = self._wanted(hypervisors, providers), self._books.read_nodes()
        now_s, in_placement = monotonic(), {one.name for one in providers}
        lost = lost_nodes(wanted, known)
        self._missing_since_s = {name: self._missing_since_s.get(name, now_s) for name in lost}
        left_s = {
            name: since_s + (_LOST_AFTER_S if name in in_placement else _GONE_AFTER_S) - now_s
            for name, since_s in self._missing_since_s.items()
        }
        removed = [NodeStep(NodeStepKind.REMOVE, name) for name in sorted(lost) if left_s[name] <= 0]
        steps = [*plan_nodes(wanted, known), *removed]
        self._refused = {step.node: said for step in steps if (said := self._change(step)) is not None}
        if steps:
            self._books.read_nodes()
        return min((seconds for seconds in left_s.values() if seconds > 0), default=None)

    def lacking(self, known: Mapping[str, NodeFacts]) -> list[NodeStep]:
        """Return the changes of known nodes after which they are those of Placement; none is removed, nothing done."""
        return plan_nodes(self._wanted(self._nova.hypervisors(), self._nova.providers(self._trait)), known)

    def flavors(self) -> None:
        """Add the sizes of Nova's flavors that Tenure does not have."""
        for told in self._nova.flavors():
            demand = demand_of(told)
            if demand is not None:
                self._books.flavor(plain_name(told["name"], told.get("extra_specs") or {}), demand)

    def _change(self, step: NodeStep) -> str | None:
        """Make a change; return why it was refused, which is told once."""
        try:
            self._books.change_node(step)
        except ServiceRefused as error:
            if self._refused.get(step.node) != str(error):
                logger.warning("a node is not as in Nova: %s", error, extra={"node": step.node, "step": str(step.kind)})
            return str(error)
        logger.info("node: %s", step.kind, extra={"node": step.node, "capacity": step.capacity})
        return None

    def _wanted(self, hypervisors: Mapping[str, bool], providers: Sequence[Provider]) -> dict[str, NodeFacts]:
        """Return the nodes as they should be. One whose compute service is gone is none, whatever Placement has."""
        there = [one for one in providers if one.name in hypervisors]
        self._read_capacities(there)
        return {one.name: NodeFacts(self._capacities[one.uuid].capacity, hypervisors[one.name]) for one in there}

    def _read_capacities(self, providers: list[Provider]) -> None:
        """Read the capacities of all new providers, and of those that may have changed the longest unread ones."""
        read = {one.uuid: self._capacities[one.uuid] for one in providers if one.uuid in self._capacities}
        changed = [one for one in providers if one.uuid in read and read[one.uuid].generation != one.generation]
        changed.sort(key=lambda one: read[one.uuid].at_s)
        for one in [one for one in providers if one.uuid not in read] + changed[:_MOST_READ_AGAIN]:
            read[one.uuid] = _ReadCapacity(one.generation, monotonic(), self._nova.capacity(one))
        self._capacities = read
