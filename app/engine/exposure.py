"""What the running spot instances stand to lose if the on-demand load becomes as high as it ever was.

Evictions come in bursts, and a burst takes the youngest first (`yjf`). So the spot instances share, oldest first, the
*room* that the highest on-demand load so far leaves. Whoever stands beyond it is *exposed*: all of them may go at
once, and each is charged as one eviction. Whoever stands within it is lost to a higher load only. In `seen_us` of
history no load was higher; by exchangeability a next stretch of `left_us` holds the highest of both with probability
left / (seen + left). How much of the room such a load leaves is not known; taken as even between nothing and all, it
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
    """The charges of instances with a promise (S) of `probability`, and the share that one more `demand` (R) reaches.

    `room` (R) may be below zero. Instances that overrun and those on closed nodes count for nothing: the first have no
    promise left, the second are evicted by no on-demand start.
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
    """How much of the room (R) is taken (R), in the resource that is shortest; infinite where there is none."""
    most = 0.0
    for r in range(room.shape[0]):
        if taken[r] > 0:
            most = max(most, taken[r] / room[r] if room[r] > 0 else np.inf)
    return most


@compiled
def charge(reached: float, left_us: int, seen_us: int) -> float:
    """What an instance is charged that stands at a share `reached` of the room and runs for `left_us` yet."""
    if reached > 1.0:
        return 1.0
    return unseen(left_us, seen_us) * reached


@compiled
def unseen(left_us: int, seen_us: int) -> float:
    """The probability that the next `left_us` bring what `seen_us` of history did not; 0 for no time at all."""
    return left_us / (seen_us + left_us) if left_us > 0 else 0.0
