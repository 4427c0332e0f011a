"""The rows of spot instances by age, kept sorted from one question to the next.

Between two questions few instances start and end, so only the new rows are sorted. What is kept is never trusted: rows
that are not in order, or not all that there are, are sorted anew.
"""

from __future__ import annotations

import numpy as np

from app.engine.cluster import NO_NODE, Cluster, Ints
from app.engine.compiled import compiled, inner


class SpotAges:
    """The rows of running spot instances, oldest first; those of a group's members stand together."""

    def __init__(self) -> None:
        self._rows = np.empty(0, np.int64)
        self._count = 0
        self._newest = -1

    def rows(self, cluster: Cluster) -> Ints:
        """Return the rows, closed nodes and overrunning instances included, until the next call."""
        if len(self._rows) != len(cluster.node_of):
            self._rows = np.concatenate([self._rows, np.empty(len(cluster.node_of) - len(self._rows), np.int64)])
        self._count, self._newest = follow_rows(cluster, self._rows, self._count, self._newest)
        return self._rows[: self._count]


@compiled
def follow_rows(cluster: Cluster, rows: Ints, count: int, newest: int) -> tuple[int, int]:
    """Bring `rows` (S) up to date, of which the first `count` are those of instances started up to `newest`.

    Return their number, and the start of the newest of them; -1 if there are none.
    """
    kept = _keep_running(cluster, rows, count, newest)
    total, running = _add_newer(cluster, rows, kept, newest)
    if total != running:
        kept = 0
        total, _ = _add_newer(cluster, rows, kept, -1)
    added = rows[kept:total].copy()
    rows[kept:total] = added[np.argsort(cluster.born[added], kind="mergesort")]
    return total, cluster.born[rows[total - 1]] if total else -1


@inner
def _keep_running(cluster: Cluster, rows: Ints, count: int, newest: int) -> int:
    """Move the rows that still hold an instance started up to `newest` to the front, and return their number.

    Return 0 if they are not in order: the row of an instance whose start was undone may have another's start.
    """
    kept, last = 0, -1
    for i in range(count):
        row = rows[i]
        if cluster.is_spot[row] and cluster.node_of[row] != NO_NODE and cluster.born[row] <= newest:
            if cluster.born[row] < last:
                return 0
            last = cluster.born[row]
            rows[kept] = row
            kept += 1
    return kept


@inner
def _add_newer(cluster: Cluster, rows: Ints, kept: int, newest: int) -> tuple[int, int]:
    """Put the rows of instances started after `newest` behind those kept. Return the sum, and how many there should be.

    They fit, because those kept are distinct and none of them is newer.
    """
    total, running = kept, 0
    for row in range(cluster.node_of.shape[0]):
        if cluster.is_spot[row] and cluster.node_of[row] != NO_NODE:
            running += 1
            if cluster.born[row] > newest:
                rows[total] = row
                total += 1
    return total, running
