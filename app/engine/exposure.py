"""Estimates the loss of the running spot instances if the on-demand load becomes as high as it ever was.

Evictions come in bursts, and a burst evicts the youngest first (`yjf`). So the spot instances share, oldest first, the
*room* that the highest on-demand load so far leaves. Instances beyond it are *exposed*: all of them may be evicted at
once, and each is charged as one eviction. Instances within it are lost only to a higher load. In `seen_us` of history
no load was higher. By exchangeability, the next `left_us` contain the highest load of both periods with probability
left / (seen + left). The room that such a load leaves is unknown and assumed uniform between nothing and all, so it
reaches an instance that stands at a share u of the room with probability u.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import Cluster, Ints, spot_rows_by_youth
from app.engine.compiled import compiled


@compiled
def exposure(
    cluster: Cluster,
    promises: NDArray[np.float64],
    probability: float,
    room: Ints,
    now_us: int,
    seen_us: int,
    demand: Ints,
) -> tuple[float, float]:
    """Return the charges of instances whose promise (S) is `probability`, and the share that one more `demand` (R)
    reaches.

    `room` (R) may be below zero. Overrunning instances and those on closed nodes are not charged: the first have no
    promise left, and on-demand starts never evict the second.
    """
    taken = np.zeros(room.shape[0], np.int64)
    committed = 0.0
    rows = spot_rows_by_youth(cluster, now_us)
    for i in range(rows.shape[0] - 1, -1, -1):
        row = rows[i]
        if now_us > cluster.deadline_us[row]:
            continue
        taken += cluster.demand[row]
        if promises[row] == probability:
            committed += charge(share(taken, room), cluster.deadline_us[row] - now_us, seen_us)
    return committed, share(taken + demand, room)


@compiled
def share(taken: Ints, room: Ints) -> float:
    """Return the share of the room (R) that is taken (R), in the scarcest resource; infinite if there is no room."""
    most = 0.0
    for r in range(room.shape[0]):
        if taken[r] > 0:
            most = max(most, taken[r] / room[r] if room[r] > 0 else np.inf)
    return most


@compiled
def charge(reached: float, left_us: int, seen_us: int) -> float:
    """Return the charge of an instance that stands at a share `reached` of the room and has `left_us` to run."""
    if reached > 1.0:
        return 1.0
    return unseen(left_us, seen_us) * reached


@compiled
def unseen(left_us: int, seen_us: int) -> float:
    """Return the probability that the next `left_us` bring a load that `seen_us` of history did not; 0 if 0."""
    return left_us / (seen_us + left_us) if left_us > 0 else 0.0
