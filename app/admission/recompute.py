"""When a quantile table should be computed anew before its time: a cloud as it was at the epoch against what it is now.

A table is learnt from history. It says least about what has just begun, so a change that it does not know of is a
reason to compute another one: nodes came or went, more was evicted since the epoch than was promised, or a class has
lost more than its promises since the cloud began.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

from app.domain.values import Guarantee, Market, NodeStatus, Policy, RunCause
from app.engine.cloud import ClassCounts, Cloud

_PAUSES = 24
"""An interval between two epochs has room for so many tables before their time."""


class Mark(NamedTuple):
    """What of a cloud is compared; `promised`: how many of its running spot instances may be evicted by their SLAs."""

    at_us: int
    classes: Mapping[float, ClassCounts]
    nodes: frozenset[tuple[int, NodeStatus]]
    promised: float


def mark(cloud: Cloud, now_us: int) -> Mark:
    """The cloud as it is now."""
    nodes = frozenset((node.index, node.status) for node in cloud.nodes.values())
    spot = (instance for instance in cloud.running.values() if instance.market is Market.SPOT)
    return Mark(now_us, dict(cloud.classes), nodes, sum(instance.probability or 0.0 for instance in spot))


def recompute_reason(epoch: Mark, now: Mark, policy: Policy) -> RunCause | None:
    """Why a table should be computed now, `epoch` being the cloud when the last one was; None where it need not.

    At most once in a 24th of the interval: a table does not help against the burst that it is learning from.
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
    """Whether more was evicted since the epoch than was promised, by more than chance (three deviations) explains."""
    promised, evicted = epoch.promised, 0
    for probability, counts in now.classes.items():
        before = epoch.classes.get(probability, ClassCounts())
        promised += probability * (counts.admitted - before.admitted)
        evicted += counts.evicted - before.evicted
    return evicted > promised + 3 * sqrt(promised)


def overdrawn(at: Mark) -> set[float]:
    """The classes that have lost more than was promised."""
    return {probability for probability, counts in at.classes.items() if counts.evicted > probability * counts.admitted}
