"""Decides what follows from what a controller observes: where an on-demand instance runs, and how large a node is.

What is observed is so whatever anybody decides. So an observation is never refused for want of room: spot instances of
that one node make room for it, the youngest first, and if they are not enough, the node is larger than was known.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.admission.decide import accepted, evictions
from app.domain.errors import InstanceConflict, NodeNotFound, NodeTooSmall, ObservedSpot
from app.domain.events import Event, InstanceMoved, InstanceStopped, NodeResized
from app.domain.flavors import check_flavor
from app.domain.requests import ObserveRequest, StartRequest
from app.domain.values import EvictionReason, Market, Resources
from app.engine.cloud import Cloud, Node


def is_as_observed(cloud: Cloud, request: ObserveRequest, *, ran: bool) -> bool:
    """Return True if a running on-demand instance is known as it is observed. Raise ObservedSpot for a spot instance.

    The labels are those of its start, whatever is observed. `ran`: its id was decided on before. Raises
    InstanceConflict if it does not run any more: an id stands for one life.
    """
    running = cloud.running.get(request.instance_id)
    if running is None and ran:
        raise InstanceConflict(f"instance {request.instance_id!r} has ended: its next life has another id")
    if running is None:
        return False
    if running.market is Market.SPOT:
        raise ObservedSpot(f"{request.instance_id!r} is a spot instance: say with a move where it runs")
    return (running.node, running.flavor) == (request.node, request.flavor)


def decide_observation(cloud: Cloud, request: ObserveRequest, at_us: int) -> Sequence[Event]:
    """Return the events of an on-demand instance that runs where it was not known to, or with another flavor.

    The last of them is its start, or its move.
    """
    check_flavor(cloud.flavors, request.flavor)
    node = cloud.nodes.get(request.node)
    if node is None:
        raise NodeNotFound(f"there is no node {request.node!r}")
    running = cloud.running.get(request.instance_id)
    demand = cloud.flavors[request.flavor].resources
    with cloud.without([] if running is None else [request.instance_id]), cloud.tried():
        raised = _raised(cloud, node, demand, request.instance_id, at_us)
        for event in raised:
            cloud.apply(event)
        victims = cloud.clear(node.name, demand, at_us)
        started = accepted(cloud, _start_of(request), at_us, (node.name,), None, victims) if running is None else None
    if running is None:
        assert started is not None
        return [*raised, *evictions(cloud, victims, at_us, EvictionReason.ON_DEMAND_START, len(raised)), started]
    moved = InstanceMoved(
        at_us=at_us,
        instance_id=request.instance_id,
        node=node.name,
        former_node=running.node,
        as_flavor=request.flavor,
    )
    return [*raised, *evictions(cloud, victims, at_us, EvictionReason.ON_DEMAND_MOVE, len(raised)), moved]


def decide_node_resize(cloud: Cloud, node: Node, capacity: Resources, at_us: int) -> Sequence[Event]:
    """Return the evictions that another capacity of a node makes necessary, and then the change; nothing if it has it.

    Raises NodeTooSmall if its on-demand instances use more.
    """
    if capacity == node.capacity:
        return []
    if _holding(cloud, node, Resources(0), None, capacity) != capacity:
        raise NodeTooSmall(f"the on-demand instances on node {node.name!r} use more than it is to have")
    victims = cloud.clear(node.name, Resources(0), at_us, capacity)
    resized = NodeResized(at_us=at_us, node=node.name, capacity=capacity)
    return [*evictions(cloud, victims, at_us, EvictionReason.NODE_RESIZED), resized]


def decide_abort(cloud: Cloud, instance_id: str, at_us: int) -> Sequence[Event]:
    """Return the event of an accepted instance that never ran, or nothing if it has ended.

    What kept its room beyond its declared lifetime has overrun, whether it ran or not: it is stopped like any other.
    """
    running = cloud.running.get(instance_id)
    if running is None:
        return []
    return [InstanceStopped(at_us=at_us, instance_id=instance_id, aborted=at_us <= running.deadline_us)]


def _start_of(request: ObserveRequest) -> StartRequest:
    return StartRequest(
        request.instance_id, Market.ON_DEMAND, request.flavor, project=request.project, user=request.user, observed=True
    )


def _raised(cloud: Cloud, node: Node, demand: Resources, but: str, at_us: int) -> list[Event]:
    """Return the change of a node's capacity to what its on-demand instances but one use there, if that is more."""
    capacity = _holding(cloud, node, demand, but)
    return [] if capacity == node.capacity else [NodeResized(at_us=at_us, node=node.name, capacity=capacity)]


def _holding(
    cloud: Cloud, node: Node, demand: Resources, but: str | None, capacity: Resources | None = None
) -> Resources:
    """Return a capacity, by default the node's, raised to what its on-demand instances but one use with a demand."""
    used = [*demand]
    for one in cloud.on_node(node.name):
        if one.market is Market.ON_DEMAND and one.instance_id != but:
            used = [sum(both) for both in zip(used, cloud.flavors[one.flavor].resources, strict=True)]
    known = node.capacity if capacity is None else capacity
    return Resources(*(size and max(size, use) for size, use in zip(known, used, strict=True)))
