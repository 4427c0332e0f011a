"""One cluster as flat arrays, and the compiled decisions over it.

Shapes: N nodes in node order, S rows for live instances, R resources. A row is free if its `node_of` is NO_NODE. A
node has UNCOUNTED of each resource that it does not count. All values are int64 or bool, so results are the same on
every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.compiled import compiled, inlined

NO_NODE = -1
UNCOUNTED = 1 << 40
NEVER_US = 1 << 62
"""The deadline of an instance that cannot overrun."""
GOES_FIRST_US = -NEVER_US
"""The deadline of room that was promised nothing: it is over from the start, and such room goes before all others."""
STOP = -1
"""In a run of starts and stops, the place of the demand where an instance is stopped."""
YJF = 0
YJF_GLOBAL = 1
FIRST_FIT = 0
BEST_FIT = 1

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Cluster(NamedTuple):
    """The arrays of one cluster.

    free (N, R): capacity left; is_open (N): takes placements; node_of (S): the row's node; demand (S, R);
    born (S): start order, greater for later starts and equal for the members of one group; deadline_us (S): end of the
    declared lifetime, or GOES_FIRST_US; is_spot (S).
    """

    free: Ints
    is_open: Bools
    node_of: Ints
    demand: Ints
    born: Ints
    deadline_us: Ints
    is_spot: Bools


def empty_cluster(node_count: int, row_count: int, resource_count: int) -> Cluster:
    """Return a cluster of closed nodes without capacity and of free rows."""
    return Cluster(
        free=np.zeros((node_count, resource_count), np.int64),
        is_open=np.zeros(node_count, np.bool_),
        node_of=np.full(row_count, NO_NODE, np.int64),
        demand=np.zeros((row_count, resource_count), np.int64),
        born=np.zeros(row_count, np.int64),
        deadline_us=np.full(row_count, NEVER_US, np.int64),
        is_spot=np.zeros(row_count, np.bool_),
    )


@inlined
def fits(room: Ints, demand: Ints) -> bool:
    """Return True if a demand (R) fits into a resource vector (R)."""
    for r in range(demand.shape[0]):
        if demand[r] > room[r]:
            return False
    return True


@compiled
def fitting_node(cluster: Cluster, demand: Ints, placement: int) -> int:
    """Return the open node with room that a demand (R) takes by the placement, or NO_NODE."""
    if placement == BEST_FIT:
        return best_fit_among(cluster, demand, 0, cluster.free.shape[0])
    return first_fit_among(cluster, demand, 0, cluster.free.shape[0])


@inlined
def first_fit_among(cluster: Cluster, demand: Ints, begin: int, end: int) -> int:
    """Return the first open node from `begin` to before `end` with room for the demand (R), or NO_NODE."""
    for node in range(begin, end):
        if cluster.is_open[node] and fits(cluster.free[node], demand):
            return node
    return NO_NODE


@inlined
def best_fit_among(cluster: Cluster, demand: Ints, begin: int, end: int) -> int:
    """Return the tightest open node from `begin` to before `end` with room for the demand (R), or NO_NODE.

    Of equally tight nodes it is the first.
    """
    found = NO_NODE
    for node in range(begin, end):
        if not (cluster.is_open[node] and fits(cluster.free[node], demand)):
            continue
        if found == NO_NODE or is_tighter(cluster.free[node], cluster.free[found], demand):
            found = node
    return found


@inlined
def is_tighter(room: Ints, other: Ints, demand: Ints) -> bool:
    """Return True if a room (R) is less than another in the first resource that the demand asks for and they differ in.

    Resources that nobody asks for do not count, because a replay leaves them out.
    """
    for r in range(demand.shape[0]):
        if demand[r] > 0 and room[r] != other[r]:
            return bool(room[r] < other[r])
    return False


@compiled
def slots_on(cluster: Cluster, demand: Ints, node: int) -> int:
    """Return the number of instances of this demand (R) that fit on a node; 0 if it is not open, or overfull."""
    if not cluster.is_open[node]:
        return 0
    slots = UNCOUNTED
    for r in range(demand.shape[0]):
        if demand[r] > 0:
            slots = min(slots, cluster.free[node, r] // demand[r])
        elif cluster.free[node, r] < 0:
            slots = 0
    return max(slots, 0)


@compiled
def available_slots(cluster: Cluster, demand: Ints) -> int:
    """Return the number of instances of this demand (R) that fit, summed over open nodes; slots do not span nodes."""
    total = 0
    for node in range(cluster.free.shape[0]):
        total += slots_on(cluster, demand, node)
    return total


@compiled
def slots_of_each(cluster: Cluster, demands: Ints) -> Ints:
    """Return the available slots of each demand (F, R)."""
    found = np.empty(demands.shape[0], np.int64)
    for kind in range(demands.shape[0]):
        found[kind] = available_slots(cluster, demands[kind])
    return found


@compiled
def place(cluster: Cluster, row: int, node: int) -> None:
    """Put the row's instance on the node."""
    cluster.node_of[row] = node
    for r in range(cluster.demand.shape[1]):
        cluster.free[node, r] -= cluster.demand[row, r]


@compiled
def release(cluster: Cluster, row: int) -> None:
    """Take the row's instance off its node. This is the exact inverse of `place`."""
    node = cluster.node_of[row]
    cluster.node_of[row] = NO_NODE
    for r in range(cluster.demand.shape[1]):
        cluster.free[node, r] += cluster.demand[row, r]


@inlined
def add(room: Ints, demand: Ints, sign: int) -> None:
    """Add a demand (R) to a room (R), or subtract it (sign -1)."""
    for r in range(demand.shape[0]):
        room[r] += sign * demand[r]


@compiled
def fitting_nodes(cluster: Cluster, demand: Ints, count: int, placement: int) -> Ints:
    """Return the nodes that so many members of a demand (R) take one after the other; none if they do not all fit.

    `cluster.free` is used up: pass a copy.
    """
    nodes = np.empty(count, np.int64)
    for k in range(count):
        nodes[k] = fitting_node(cluster, demand, placement)
        if nodes[k] == NO_NODE:
            return nodes[:0]
        add(cluster.free[nodes[k]], demand, -1)
    return nodes


@compiled
def plan_run(cluster: Cluster, demands: Ints, steps: Ints, placement: int) -> Ints:
    """Return the nodes of on-demand starts and of stops, in order, up to the first start that fits nowhere.

    `demands` (F, R). A step (K, 2) is a start with the index of its demand, or STOP with the row of the instance; an
    instance that step k of the run starts has no row yet and is called ~k. `cluster.free` is used up: pass a copy.
    """
    nodes = np.empty(steps.shape[0], np.int64)
    for k in range(steps.shape[0]):
        kind, row = steps[k, 0], steps[k, 1]
        if kind != STOP:
            nodes[k] = fitting_node(cluster, demands[kind], placement)
            if nodes[k] == NO_NODE:
                return nodes[:k]
            add(cluster.free[nodes[k]], demands[kind], -1)
        elif row < 0:
            nodes[k] = nodes[~row]
            add(cluster.free[nodes[k]], demands[steps[~row, 0]], 1)
        else:
            nodes[k] = cluster.node_of[row]
            add(cluster.free[nodes[k]], cluster.demand[row], 1)
    return nodes


@compiled
def move_run(cluster: Cluster, demands: Ints, moves: Ints, load: Ints, peak: Ints) -> None:
    """Place and release instances in order, as the starts and stops that a run of events tells.

    A move (K, 6): the row; the index of its demand in `demands` (F, R), or STOP; of a start also the node, the
    deadline, 1 for spot, and the start order. `load` (R), what on-demand instances use, is kept up, and `peak` (R)
    becomes the highest that it was after a start.
    """
    for k in range(moves.shape[0]):
        row, kind = moves[k, 0], moves[k, 1]
        if kind == STOP:
            if not cluster.is_spot[row]:
                add(load, cluster.demand[row], -1)
            release(cluster, row)
            continue
        cluster.demand[row] = demands[kind]
        cluster.born[row] = moves[k, 5]
        cluster.deadline_us[row] = moves[k, 3]
        cluster.is_spot[row] = moves[k, 4] == 1
        place(cluster, row, moves[k, 2])
        if not cluster.is_spot[row]:
            add(load, cluster.demand[row], 1)
            for r in range(load.shape[0]):
                peak[r] = max(peak[r], load[r])
