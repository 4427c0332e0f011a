"""The picture of a cluster's nodes over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

from app.clusters.rules.told import ToldNode


def node_steps(
    nodes: Iterable[ToldNode], pools: Iterable[str], begin_us: int, end_us: int, points: int
) -> tuple[list[int], dict[str, list[int]]]:
    """Return moments from begin to end, and how many nodes of each pool there are at each; the paper's figure 6.

    The moments lie evenly, so that a picture is as large however much has happened.
    """
    step_us = max((end_us - begin_us) // points, 1)
    moments = [*range(begin_us, end_us, step_us), end_us]
    changes: dict[str, list[int]] = {pool: [0] * (len(moments) + 1) for pool in pools}
    for node in nodes:
        first = bisect_left(moments, node.bought_us)
        last = len(moments) if node.gone_us is None else bisect_right(moments, node.gone_us)
        if node.pool in changes and first < last:
            changes[node.pool][first] += 1
            changes[node.pool][last] -= 1
    return moments, {pool: [*accumulate(one[:-1])] for pool, one in changes.items()}
