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

from app.engine.cluster import Cluster, Ints
from app.engine.compiled import bare, compiled, inlined

FEW_CLASSES = 16
"""The promise of a row is compared with all of so many classes, and searched for among more."""


@compiled
def exposure(
    cluster: Cluster,
    oldest_first: Ints,
    promises: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    room: Ints,
    now_us: int,
    seen_us: int,
    core_hours: NDArray[np.float64],
    by_core_hours: bool,  # noqa: FBT001 - compiled functions take no keywords
) -> tuple[NDArray[np.float64], Ints]:
    """Return the charges of each class (C), and what all instances that are charged take (R).

    oldest_first (K): the rows of spot instances by age; promises (S); probabilities (C): the classes, rising; `room`
    (R) may be below zero; core_hours (S): those declared, by which charges are multiplied if `by_core_hours`.
    Overrunning instances and those on closed nodes are not charged: the first have no promise left, and on-demand
    starts never evict the second. A group is charged once, at the share that all of it reaches.
    """
    taken, committed = np.zeros(room.shape[0], np.int64), np.zeros(probabilities.shape[0])
    for i in range(oldest_first.shape[0]):
        row = oldest_first[i]
        if now_us > cluster.deadline_us[row] or not cluster.is_open[cluster.node_of[row]]:
            continue
        for r in range(room.shape[0]):
            taken[r] += cluster.demand[row, r]
        at = class_index(probabilities, promises[row])
        if at >= 0 and not is_followed(cluster, oldest_first, i):
            weight = core_hours[row] if by_core_hours else 1.0
            committed[at] += weight * charge(share(taken, room), cluster.deadline_us[row] - now_us, seen_us)
    return committed, taken


@bare
def is_followed(cluster: Cluster, oldest_first: Ints, at: int) -> bool:
    """Return True if another member of the same group, on an open node, comes behind this place."""
    behind = at + 1
    while behind < oldest_first.shape[0] and cluster.born[oldest_first[behind]] == cluster.born[oldest_first[at]]:
        if cluster.is_open[cluster.node_of[oldest_first[behind]]]:
            return True
        behind += 1
    return False


@inlined
def class_index(probabilities: NDArray[np.float64], promise: float) -> int:
    """Return the place of a promise among the probabilities (C) of classes, rising; -1 if it is none of them.

    Few are all compared: where a search turns cannot be foreseen, which costs more.
    """
    low, high = 0, probabilities.shape[0]
    if high <= FEW_CLASSES:
        for at in range(high):
            low += int(probabilities[at] < promise)
        high = low
    while low < high:
        middle = (low + high) // 2
        if probabilities[middle] < promise:
            low = middle + 1
        else:
            high = middle
    return low if low < probabilities.shape[0] and probabilities[low] == promise else -1


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
