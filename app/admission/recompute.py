"""The rules that ask for a quantile table before its time, by comparing the cloud now with the cloud at the epoch.

A table is learnt from history and knows nothing of the latest changes. So these are reasons for a new one: nodes came
or went, more was evicted since the epoch than was promised, or a class has lost more than its promises in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

from app.domain.values import Guarantee, Market, NodeStatus, Policy, Resources, RunCause
from app.engine.cloud import ClassCounts, Cloud

_PAUSES = 24
"""The number of early tables that fit into an interval between two epochs."""


class Mark(NamedTuple):
    """Figures of a cloud to compare. `promised`: how many running spot instances their SLAs allow to evict."""

    at_us: int
    classes: Mapping[float, ClassCounts]
    nodes: frozenset[tuple[str, Resources, NodeStatus]]
    promised: float


def mark(cloud: Cloud, now_us: int) -> Mark:
    """Return the figures of the cloud as it is now."""
    nodes = frozenset((node.name, node.capacity, node.status) for node in cloud.nodes.values())
    spot = (instance for instance in cloud.running.values() if instance.market is Market.SPOT)
    return Mark(now_us, dict(cloud.classes), nodes, sum(instance.probability or 0.0 for instance in spot))


def recompute_reason(epoch: Mark, now: Mark, policy: Policy) -> RunCause | None:
    """Return the reason to compute a table now, or None. `epoch` holds the figures at the time of the last table.

    A reason is given at most once in a 24th of the interval: a table does not help against the burst it learns from.
    """
    if policy.guarantee is Guarantee.NONE or now.at_us < epoch.at_us + policy.recompute_every_us // _PAUSES:
        return None
    if now.nodes != epoch.nodes:
        return RunCause.CAPACITY_CHANGED
    if is_burst(epoch, now):
        return RunCause.EVICTION_BURST
    if overdrawn(now) - overdrawn(epoch):
        return RunCause.SLA_DRIFT
    return None


def is_burst(epoch: Mark, now: Mark) -> bool:
    """Return True if evictions since the epoch exceed the promises by more than chance (three deviations) explains."""
    promised, evicted = epoch.promised, 0
    for probability, counts in now.classes.items():
        before = epoch.classes.get(probability, ClassCounts())
        promised += probability * (counts.admitted - before.admitted)
        evicted += counts.evicted - before.evicted
    return evicted > promised + 3 * sqrt(promised)


def overdrawn(at: Mark) -> set[float]:
    """Return the classes that have lost more than was promised."""
    return {probability for probability, counts in at.classes.items() if counts.evicted > probability * counts.admitted}
