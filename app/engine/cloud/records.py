"""The plain values of a cloud's state, and the interface of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from app.domain.events import InstanceStarted
from app.domain.values import EvictionReason, Market, NodeStatus, Policy, Resources
from app.engine.cluster import NEVER_US, Cluster, Ints, empty_cluster

FIRST_ROWS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `index` is its position in node order, which is never used again after its removal."""

    index: int
    name: str
    capacity: Resources
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor. `demand` is the compiled form (R) of `resources`."""

    name: str
    resources: Resources
    demand: np.ndarray = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Running:
    """A running instance. `seq`, the position of its start in the log, orders instances by age."""

    instance_id: str
    seq: int
    started_us: int
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None
    probability: float | None
    row: int
    risk: float | None = None
    """The eviction probability that was estimated at the start; None if nothing was promised."""

    @property
    def deadline_us(self) -> int:
        """The time when the instance starts to overrun; on-demand instances never do."""
        if self.market is Market.ON_DEMAND or self.lifetime_us is None:
            return NEVER_US
        return self.started_us + self.lifetime_us


@dataclass(frozen=True, slots=True)
class Handover:
    """An eviction under a grace period that no controller has confirmed. Its room is booked but may still be in use."""

    instance_id: str
    node: str
    flavor: str
    reason: EvictionReason
    cause_seq: int
    scheduled_us: int
    deadline_us: int
    is_overdue: bool = False


class Counts(NamedTuple):
    """Counts of requests and their outcomes since the log began. Evictions by drills are not counted as evicted."""

    on_demand_requested: int = 0
    on_demand_admitted: int = 0
    spot_requested: int = 0
    spot_admitted: int = 0
    spot_evicted: int = 0
    spot_drilled: int = 0


class ClassCounts(NamedTuple):
    """Counts for the instances promised one eviction probability. Overrunning ones have no promise left."""

    admitted: int = 0
    evicted: int = 0


class BookAccount(NamedTuple):
    """The account of a stratum of one promise: what its starts have earned, and how many were evicted in time."""

    earned: float = 0.0
    evicted: int = 0


class Facts(NamedTuple):
    """The whole state as values that can be compared, hashed and stored.

    `node_order` names every node ever added; `nodes` are the latest of each name. Rows of running instances are 0,
    because no decision depends on them.
    """

    seq: int
    at_us: int
    created_us: int
    policy: Policy
    counts: Counts
    classes: list[tuple[float, ClassCounts]]
    on_demand_peak: Resources
    node_order: tuple[str, ...]
    nodes: dict[str, Node]
    flavors: list[tuple[str, Resources]]
    running: list[Running]
    handovers: list[Handover]
    at_risk: list[str]
    books: list[tuple[float, int, BookAccount]]


def in_order(facts: Facts) -> Facts:
    """Return the facts with the running instances by age and without their rows."""
    by_age = sorted(facts.running, key=lambda running: running.seq)
    return facts._replace(running=[replace(running, row=0) for running in by_age])


def risk_of(event: InstanceStarted) -> float | None:
    """Return the risk that a spot start recorded beside its promise; None if nothing was promised."""
    basis = event.basis
    return None if basis is None or basis.probability is None else basis.estimated_probability


Undo: TypeAlias = Callable[[], None]
Fold: TypeAlias = Callable[[Any], Undo | None]
"""A function that folds an event of one kind into a part. It returns its undo, or None if nothing changed."""


class Part(Protocol):
    """A part of the state. It folds the kinds of events that concern it."""

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""

    def restore(self, facts: Facts) -> None:
        """Load the empty part from its share of the facts."""


class Room:
    """The compiled form of placements (which instance is on which node), shared by the nodes and the instances.

    sizes (N, R): the capacity of each node ever added.
    """

    def __init__(self) -> None:
        self.cluster: Cluster = empty_cluster(0, FIRST_ROWS, len(Resources._fields))
        self.sizes: Ints = self.cluster.free.copy()

    def copy(self) -> Cluster:
        """Return the placements as they are now."""
        return Cluster._make(array.copy() for array in self.cluster)
