"""A look into the future of a workload: is anybody evicted if no further spot instance starts?

An evaluation knows every later start and stop. So the future of a moment is decided like the past: by the engine's
placement, in the order of the workload's operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.requests import Operation, StartRequest
from app.domain.values import Market
from app.engine.cloud import PLACEMENT_CODE, Cloud
from app.engine.cluster import NO_NODE, STOP, Cluster, Ints, add, fitting_node
from app.engine.compiled import compiled, inner
from app.workbench.workload import Workload, flavors, operations

_START = 0


@compiled
def evicts_nobody(
    cluster: Cluster,
    held: Ints,
    node_of: Ints,
    demands: Ints,
    is_spot: NDArray[np.bool_],
    steps: Ints,
    placement: int,
) -> bool:
    """Return True if no spot instance is evicted until all of them have stopped, and none starts meanwhile.

    The M instances of the workload are numbered. `held` (N, R): what spot instances use; `node_of` (M): where an
    instance runs, or NO_NODE; `demands` (M, R); `is_spot` (M). A step (K, 2) is _START or STOP with a number.
    `cluster.free`, `held` and `node_of` are used up: pass copies.
    """
    running = 0
    for number in range(node_of.shape[0]):
        running += is_spot[number] and node_of[number] != NO_NODE
    for k in range(steps.shape[0]):
        if running == 0:
            return True
        number = steps[k, 1]
        if steps[k, 0] == STOP:
            running -= is_spot[number] and node_of[number] != NO_NODE
            leave(cluster, held, node_of, demands, is_spot, number)
        elif not is_spot[number]:
            node = fitting_node(cluster, demands[number], placement)
            if node != NO_NODE:
                node_of[number] = node
                add(cluster.free[node], demands[number], -1)
            elif evictions_make_room(cluster, held, demands[number]):
                return False
    return True


@inner
def leave(cluster: Cluster, held: Ints, node_of: Ints, demands: Ints, is_spot: NDArray[np.bool_], number: int) -> None:
    """Take an instance off its node, if it runs."""
    node = node_of[number]
    if node == NO_NODE:
        return
    node_of[number] = NO_NODE
    add(cluster.free[node], demands[number], 1)
    if is_spot[number]:
        add(held[node], demands[number], -1)


@inner
def evictions_make_room(cluster: Cluster, held: Ints, demand: Ints) -> bool:
    """Return True if evicting all spot instances of some one open node makes room: the engine then evicts."""
    for node in range(held.shape[0]):
        enough = cluster.is_open[node]
        for r in range(demand.shape[0]):
            enough = enough and demand[r] <= cluster.free[node, r] + held[node, r]
        if enough:
            return True
    return False


class Foresight:
    """Knows a workload's operations, and follows the events of a cloud that they are decided by."""

    def __init__(self, workload: Workload) -> None:
        steps, kinds = operations(workload), flavors(workload)
        starts = [step for step in steps if isinstance(step, StartRequest)]
        self._numbers = {start.instance_id: number for number, start in enumerate(starts)}
        self._steps = np.array([self._coded(step) for step in steps], np.int64).reshape(-1, 2)
        self._after = {start.instance_id: at + 1 for at, start in enumerate(steps) if isinstance(start, StartRequest)}
        self._demands = np.array([kinds[start.flavor] for start in starts], np.int64)
        self._is_spot = np.array([start.market is Market.SPOT for start in starts], np.bool_)
        self._node_of = np.full(len(starts), NO_NODE, np.int64)
        self._nodes: dict[str, int] = {}

    def _coded(self, step: Operation) -> tuple[int, int]:
        return _START if isinstance(step, StartRequest) else STOP, self._numbers[step.instance_id]

    def write(self, recorded: Recorded) -> None:
        """Take the log's next event."""
        event = recorded.event
        if isinstance(event, NodeAdded):
            self._nodes[event.node] = len(self._nodes)
        elif isinstance(event, InstanceStarted):
            self._node_of[self._numbers[event.instance_id]] = self._nodes[event.node]
        elif isinstance(event, InstanceStopped | InstanceEvicted):
            self._node_of[self._numbers[event.instance_id]] = NO_NODE

    def admits(self, cloud: Cloud, request: StartRequest, node: str) -> bool:
        """Return True if the start, on this node, is not evicted, and nobody else because of it."""
        number, at = self._numbers[request.instance_id], self._nodes[node]
        node_of, free = self._node_of.copy(), cloud.cluster.free.copy()
        node_of[number] = at
        free[at] -= self._demands[number]
        held = np.zeros_like(free)
        spot = np.flatnonzero(self._is_spot & (node_of != NO_NODE))
        np.add.at(held, node_of[spot], self._demands[spot])
        steps, cluster = self._steps[self._after[request.instance_id] :], cloud.cluster._replace(free=free)
        placement = PLACEMENT_CODE[cloud.policy.placement]
        return bool(evicts_nobody(cluster, held, node_of, self._demands, self._is_spot, steps, placement))
