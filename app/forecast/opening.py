"""The recorded state with which a replay begins: the instances that ran at a time, on their recorded nodes."""

from __future__ import annotations

import numpy as np

from app.engine.cluster import NO_NODE, Cluster, empty_cluster, place, release
from app.forecast.operations import EXTENDED, MOVED, NODE_ADDED, NODE_OPENED, NODE_RESIZED, START_SPOT, Operations


def opening(operations: Operations, node_count: int, row_count: int, at_us: int) -> Cluster:
    """Return the recorded state just before `at_us`, with room for so many nodes and rows of instances."""
    before = int(np.searchsorted(operations.at_us, at_us))
    cluster = empty_cluster(node_count, row_count, operations.sizes.shape[1])
    kinds = operations.kind[:before]
    for index in np.flatnonzero(kinds >= NODE_ADDED).tolist():
        _change_node(cluster, operations, index)
    started = (operations.node[:before] != NO_NODE) & (operations.ended_us[:before] >= at_us)
    changed = (kinds == EXTENDED) | (kinds == MOVED)
    for index in np.flatnonzero(changed | (started & (kinds <= START_SPOT))).tolist():
        if kinds[index] == EXTENDED:  # of an instance that has ended, this is overwritten by the row's next one
            cluster.deadline_us[operations.target[index]] = operations.deadline_us[index]
        elif kinds[index] == MOVED:
            _move_row(cluster, operations, index)
        else:
            _enter_row(cluster, operations, index)
    return cluster


def _change_node(cluster: Cluster, operations: Operations, index: int) -> None:
    node, kind = operations.target[index], operations.kind[index]
    if kind == NODE_ADDED:
        cluster.free[node] = operations.sizes[operations.size[index]]
    if kind == NODE_RESIZED:
        cluster.free[node] += operations.sizes[operations.size[index]] - operations.sizes[operations.node[index]]
        return
    cluster.is_open[node] = kind in (NODE_ADDED, NODE_OPENED)


def _move_row(cluster: Cluster, operations: Operations, index: int) -> None:
    row = int(operations.target[index])
    if cluster.node_of[row] != NO_NODE:  # it has not ended before the opening
        release(cluster, row)
        place(cluster, row, int(operations.node[index]))


def _enter_row(cluster: Cluster, operations: Operations, index: int) -> None:
    row = int(operations.target[index])
    cluster.demand[row] = operations.sizes[operations.size[index]]
    cluster.born[row] = operations.born[index]
    cluster.deadline_us[row] = operations.deadline_us[index]
    cluster.is_spot[row] = operations.kind[index] == START_SPOT
    place(cluster, row, int(operations.node[index]))
