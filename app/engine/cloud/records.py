"""What a cloud's state is made of, as plain values, and what each of its parts can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from app.domain.values import EvictionReason, Market, NodeStatus, Policy, Resources
from app.engine.cluster import NEVER_US, Cluster, empty_cluster

FIRST_ROWS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """`index` is the position in node order; it is never used again after the node is removed."""

    index: int
    name: str
    capacity: Resources
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class Flavor:
    """`demand` is the compiled form (R) of `resources`."""

    name: str
    resources: Resources
    demand: np.ndarray = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Running:
    """A running instance. `seq` is its start's position in the log and so its rank in age."""

    instance_id: str
    seq: int
    started_us: int
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None
    probability: float | None
    row: int

    @property
    def deadline_us(self) -> int:
        """When it starts to overrun; on-demand instances never do."""
        if self.market is Market.ON_DEMAND or self.lifetime_us is None:
            return NEVER_US
        return self.started_us + self.lifetime_us


@dataclass(frozen=True, slots=True)
class Handover:
    """An eviction under a grace period that no controller has confirmed: the room is booked, but may not be free."""

    instance_id: str
    node: str
    flavor: str
    reason: EvictionReason
    cause_seq: int
    scheduled_us: int
    deadline_us: int
    is_overdue: bool = False


class Counts(NamedTuple):
    """What was asked and what became of it, since the log began. Drills are not among the evicted."""

    on_demand_requested: int = 0
    on_demand_admitted: int = 0
    spot_requested: int = 0
    spot_admitted: int = 0
    spot_evicted: int = 0
    spot_drilled: int = 0


class ClassCounts(NamedTuple):
    """What became of the instances that are promised one eviction probability; overruns have no promise left."""

    admitted: int = 0
    evicted: int = 0


class Facts(NamedTuple):
    """All that a state consists of, as values that can be compared, hashed and stored.

    `node_order` names every node ever added; `nodes` are those known by name. Rows of running instances are 0, because
    no decision depends on them.
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


Undo: TypeAlias = Callable[[], None]
Fold: TypeAlias = Callable[[Any], Undo | None]
"""Folds an event of one kind into a part, and returns what takes it back; None where nothing changed."""


class Part(Protocol):
    """A part of the state: it folds the kinds of events that concern it."""

    def folds(self) -> Mapping[type, Fold]:
        """Return what folds each kind of event that concerns this part."""

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""

    def restore(self, facts: Facts) -> None:
        """Take the part's share of the facts, when the state is empty yet."""


class Room:
    """The compiled form of which instance stands on which node; the nodes and the instances share it."""

    def __init__(self) -> None:
        self.cluster: Cluster = empty_cluster(0, FIRST_ROWS, len(Resources._fields))
