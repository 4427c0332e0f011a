"""The replay in plain Python: for every sample the naive engine runs the whole history anew, from a deep copy on.

An independent reading of the rules: the history is cut and sorted as a whole, never continued, and nothing is merged.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from app.domain.events import (
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    NodeResized,
    Recorded,
)
from app.domain.values import Market, Policy
from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode
from oracles.pressing import pressing

VIRTUAL = "virtual"
FOREVER = 1 << 62


@dataclass
class NaiveOperation:
    """`act(cluster)` changes a naive cluster and returns the names that were evicted. Sorted by time and rank."""

    at_us: int
    rank: tuple[int, float]
    act: Callable[[NaiveCluster], list[str]]


@dataclass
class NaiveHistory:
    """The log's part before `until_us`."""

    log: list[Recorded]
    policy: Policy
    until_us: int

    def __post_init__(self) -> None:
        self.log = [item for item in self.log if item.event.at_us < self.until_us]
        self.flavors = {i.event.flavor: tuple(i.event.demand) for i in self.log if isinstance(i.event, FlavorAdded)}
        self.lifetimes = {
            i.event.instance_id: i.event.lifetime_us
            for i in self.log
            if isinstance(i.event, InstanceStarted | InstanceExtended)
        }
        self.starts = {
            i.event.instance_id: i for i in self.log if isinstance(i.event, InstanceStarted | InstanceRejected)
        }

        self.pressing = pressing(self.log)

    def operations(self) -> list[NaiveOperation]:
        found = [operation for item in self.log for operation in self.read(item)]
        found.sort(key=lambda operation: (operation.at_us, operation.rank))
        return [operation for operation in found if operation.at_us < self.until_us]

    def read(self, item: Recorded) -> list[NaiveOperation]:
        event, here = item.event, (1, float(item.seq))
        match event:
            case InstanceStarted():
                return [NaiveOperation(event.at_us, here, self.start(item))]
            case InstanceRejected(market=Market.ON_DEMAND) if event.instance_id in self.pressing:
                end_us = event.at_us + (event.lifetime_us or 0)
                rank = (0, float(item.seq)) if end_us > event.at_us else (1, item.seq + 0.5)
                start = NaiveOperation(event.at_us, here, self.start(item))
                return [start, NaiveOperation(end_us, rank, end(event.instance_id))]
            case InstanceStopped():
                return [NaiveOperation(event.at_us, here, end(event.instance_id))]
            case InstanceEvicted():
                start = self.starts[event.instance_id]
                end_us = max(start.event.at_us + self.lifetimes[event.instance_id], event.at_us)
                rank = (0, float(start.seq)) if end_us > event.at_us else here
                return [NaiveOperation(end_us, rank, end(event.instance_id))]
            case InstanceExtended():
                return [NaiveOperation(event.at_us, here, extend(event))]
            case InstanceMoved(as_flavor=None):
                return [NaiveOperation(event.at_us, here, move(event))]
            case InstanceMoved():
                anew = NaiveOperation(event.at_us, here, self.start_anew(item))
                return [NaiveOperation(event.at_us, here, end(event.instance_id)), anew]
            case NodeResized():
                return [NaiveOperation(event.at_us, here, resize_node(event))]
            case NodeAdded():
                return [NaiveOperation(event.at_us, here, add_node(event))]
            case NodeDrained() | NodeOpened() | NodeRemoved():
                return [NaiveOperation(event.at_us, here, change_node(event))]
        return []

    def instance(self, item: Recorded) -> NaiveInstance:
        event = item.event
        is_spot = event.market is Market.SPOT
        deadline_us = event.at_us + event.lifetime_us if is_spot else FOREVER
        nowhere = NaiveNode("nowhere", ())
        demand = self.flavors[event.flavor]
        found = NaiveInstance(event.instance_id, is_spot, demand, item.seq, deadline_us, nowhere, count=event.count)
        found.goes_first = isinstance(event, InstanceStarted) and event.goes_first
        return found

    def start(self, item: Recorded) -> Callable[[NaiveCluster], list[str]]:
        def act(cluster: NaiveCluster) -> list[str]:
            instance = self.instance(item)
            if instance.is_spot:
                displaces = self.policy.displaces_overrunning
                return cluster.start_spot(instance, item.event.at_us, displaces=displaces) or []
            return cluster.start_on_demand(instance, item.event.at_us, self.policy.eviction_policy.value) or []

        return act

    def start_anew(self, item: Recorded) -> Callable[[NaiveCluster], list[str]]:
        """The start of an on-demand instance that was observed elsewhere, or with another flavor."""
        event = item.event

        def act(cluster: NaiveCluster) -> list[str]:
            instance = self.moved(item)
            return cluster.start_on_demand(instance, event.at_us, self.policy.eviction_policy.value) or []

        return act

    def moved(self, item: Recorded) -> NaiveInstance:
        event, nowhere = item.event, NaiveNode("nowhere", ())
        return NaiveInstance(event.instance_id, False, self.flavors[event.as_flavor], item.seq, FOREVER, nowhere)

    def opening(self, start_us: int) -> NaiveCluster:
        """Return the state of the cloud just before `start_us`, from the log."""
        return self.recorded([item for item in self.log if item.event.at_us < start_us])

    def recorded(self, before: list[Recorded]) -> NaiveCluster:
        """Return the state of the cloud after these events."""
        cluster = NaiveCluster(placement=self.policy.placement.value)
        for item in before:
            event = item.event
            match event:
                case NodeAdded():
                    add_node(event)(cluster)
                case NodeDrained() | NodeOpened() | NodeRemoved():
                    change_node(event)(cluster)
                case InstanceStarted():
                    instance = self.instance(item)
                    instance.node, *instance.more = map(cluster.node, event.places)
                    cluster.instances[instance.name] = instance
                case InstanceExtended():
                    extend(event)(cluster)
                case InstanceMoved():
                    one = cluster.instances[event.instance_id]
                    one.node = cluster.node(event.node)
                    one.demand = one.demand if event.as_flavor is None else self.flavors[event.as_flavor]
                case NodeResized():
                    cluster.node(event.node).capacity = tuple(event.capacity)
                case InstanceStopped() | InstanceEvicted():
                    del cluster.instances[event.instance_id]
        return cluster

    def sample(self, flavor: str, at_us: int, start_us: int) -> tuple[int, int, bool] | None:
        """(available slots, lasted, was evicted) of a virtual instance injected at `at_us`; None where it cannot be."""
        cluster = deepcopy(self.opening(start_us))
        born, rest = 0.0, []
        for operation in self.operations():
            if start_us <= operation.at_us <= at_us:
                operation.act(cluster)
            if operation.at_us > at_us:
                rest.append(operation)
            elif operation.rank[0] == 1:
                born = max(born, operation.rank[1])
        slots = cluster.slots(self.flavors[flavor])
        virtual = NaiveInstance(VIRTUAL, True, self.flavors[flavor], born + 0.25, FOREVER, NaiveNode("nowhere", ()))
        if cluster.start_spot(virtual) is None:
            return None
        return slots, *self.fate(cluster, rest, at_us)

    def follow(self, item: Recorded) -> tuple[int, bool]:
        """(lasted, was evicted) of a virtual instance that a recorded start would have been in the recorded state."""
        cluster = self.recorded([one for one in self.log if one.seq < item.seq])
        demand, here = self.flavors[item.event.flavor], (item.event.at_us, (1, float(item.seq)))
        virtual = NaiveInstance(VIRTUAL, True, demand, item.seq, FOREVER, NaiveNode("nowhere", ()))
        assert cluster.start_spot(virtual) is not None
        rest = [operation for operation in self.operations() if (operation.at_us, operation.rank) > here]
        return self.fate(cluster, rest, item.event.at_us)

    def fate(self, cluster: NaiveCluster, rest: list[NaiveOperation], at_us: int) -> tuple[int, bool]:
        horizon_us = min(self.until_us, at_us + self.policy.horizon_us)
        for operation in rest:
            if operation.at_us > horizon_us:
                break
            if VIRTUAL in operation.act(cluster):
                return operation.at_us - at_us, True
        return horizon_us - at_us, False


def end(name: str) -> Callable[[NaiveCluster], list[str]]:
    def act(cluster: NaiveCluster) -> list[str]:
        cluster.instances.pop(name, None)
        return []

    return act


def extend(event: InstanceExtended) -> Callable[[NaiveCluster], list[str]]:
    """The instance may have been evicted in a replay; then there is nothing to extend."""

    def act(cluster: NaiveCluster) -> list[str]:
        if event.instance_id in cluster.instances:
            cluster.instances[event.instance_id].deadline_us += event.lifetime_us - event.former_lifetime_us
        return []

    return act


def move(event: InstanceMoved) -> Callable[[NaiveCluster], list[str]]:
    """In a replay the instance may be gone, or there already, or the node may have no room."""

    def act(cluster: NaiveCluster) -> list[str]:
        one, node = cluster.instances.get(event.instance_id), cluster.node(event.node)
        is_elsewhere = one is not None and one.node is not node
        if one is not None and is_elsewhere and node.is_open and cluster.holds(node, cluster.on(node), one.demand):
            one.node = node
        return []

    return act


def add_node(event: NodeAdded) -> Callable[[NaiveCluster], list[str]]:
    def act(cluster: NaiveCluster) -> list[str]:
        cluster.nodes.append(NaiveNode(event.node, tuple(event.capacity)))
        return []

    return act


def change_node(event: NodeDrained | NodeOpened | NodeRemoved) -> Callable[[NaiveCluster], list[str]]:
    """Drained and removed nodes take no placements; a removed one loses its spot instances."""

    def act(cluster: NaiveCluster) -> list[str]:
        node = cluster.node(event.node)
        node.is_open = isinstance(event, NodeOpened)
        if not isinstance(event, NodeRemoved):
            return []
        evicted = [i.name for i in cluster.on(node) if i.is_spot]
        for name in evicted:
            del cluster.instances[name]
        return evicted

    return act


def resize_node(event: NodeResized) -> Callable[[NaiveCluster], list[str]]:
    """The node loses the youngest spot instances until the others fit, or all of them."""

    def act(cluster: NaiveCluster) -> list[str]:
        node = cluster.node(event.node)
        node.capacity = tuple(event.capacity)
        evicted = [one.name for one in cluster.clear_or_empty(node, (0, 0, 0), event.at_us)]
        for name in evicted:
            del cluster.instances[name]
        return evicted

    return act
