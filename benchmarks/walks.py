"""Measures the walk over the spot instances, with and without overrunning ones among them.

An on-demand start that does not fit walks all spot instances, overrunning ones first, then youngest first. All lines
must be much alike, and twice as many instances may take little more than twice as long.

    python -m benchmarks.walks
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from app.engine.cluster import NEVER_US, Cluster, empty_cluster
from app.engine.eviction import spot_rows_by_youth

SIZES = (4_000, 8_000, 16_000)
TIMES = 20


def cluster_of(count: int, overrunning: int) -> Cluster:
    """Return that many spot instances on one node in the order of their starts; at 1 the oldest overrun."""
    cluster = empty_cluster(1, count, 1)
    cluster.is_open[:] = True
    cluster.is_spot[:] = True
    cluster.node_of[:] = 0
    cluster.born[:] = np.arange(count)
    cluster.deadline_us[:] = np.where(np.arange(count) < overrunning, 0, NEVER_US)
    return cluster


def walk_ms(count: int, overrunning: int) -> float:
    """Return the fastest of some walks, in milliseconds."""
    cluster = cluster_of(count, overrunning)
    spot_rows_by_youth(cluster, 1)
    took = []
    for _ in range(TIMES):
        begun = perf_counter()
        spot_rows_by_youth(cluster, 1)
        took.append(perf_counter() - begun)
    return min(took) * 1000


def main() -> None:
    """Measure and print."""
    for name, part in (
        ("none overruns", 0.0),
        ("the oldest half overruns", 0.5),
        ("all but the youngest overrun", 1.0),
    ):
        told = (f"{count}: {walk_ms(count, int((count - 1) * part)):.2f} ms" for count in SIZES)
        print(f"{name:29} {', '.join(told)}")


if __name__ == "__main__":
    main()
