"""Decides whether a running instance may be where its controller says that it runs now.

The controller has moved it, so nothing is placed here: the books follow, unless they would not hold. The instance keeps
its promise, its age and its rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import (
    InstanceNotFound,
    MoveOfEnded,
    MoveOfGroup,
    MoveToDrained,
    MoveWithoutRoom,
    NodeNotFound,
)
from app.domain.events import InstanceMoved
from app.domain.requests import MoveRequest
from app.domain.values import NodeStatus
from app.engine.cloud import Cloud


def check_runs(cloud: Cloud, request: MoveRequest, *, ran: bool) -> None:
    """Raise MoveOfEnded if the instance ran and does not any more, InstanceNotFound if it never did."""
    if request.instance_id not in cloud.running:
        if ran:
            raise MoveOfEnded(f"instance {request.instance_id!r} does not run")
        raise InstanceNotFound(f"there is no instance {request.instance_id!r}")


def is_there(cloud: Cloud, request: MoveRequest) -> bool:
    """Return True if a running instance runs on that node already, so that there is nothing to do."""
    running = cloud.running[request.instance_id]
    return running.count == 1 and running.node == request.node


def decide_move(cloud: Cloud, request: MoveRequest, at_us: int) -> Sequence[InstanceMoved]:
    """Return the event of a running instance's move to another node, which is open and has room for it."""
    running, node = cloud.running[request.instance_id], cloud.nodes.get(request.node)
    if running.count > 1:
        raise MoveOfGroup(f"instance {request.instance_id!r} is a group of {running.count}, which is placed as a whole")
    if node is None:
        raise NodeNotFound(f"there is no node {request.node!r}")
    if node.status is not NodeStatus.OPEN:
        raise MoveToDrained(f"node {request.node!r} is drained: it takes no more placements")
    if not cloud.fits_on(running.flavor, request.node):
        raise MoveWithoutRoom(f"node {request.node!r} has no room for instance {request.instance_id!r}")
    return [InstanceMoved(at_us=at_us, instance_id=request.instance_id, node=request.node, former_node=running.node)]
