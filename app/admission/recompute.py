"""When a quantile table should be computed anew before its time: a cloud as it was at the epoch against what it is now.

A table is learnt from history. It says least about what has just begun, so a change that it does not know of is a
reason to compute another one: nodes came or went, more was evicted since the epoch than was promised, or the ratio over
the whole log has passed the SLA.
"""

from __future__ import annotations

from enum import StrEnum
from math import sqrt
from typing import NamedTuple

from app.domain.values import Guarantee, Market, NodeStatus, Policy
from app.engine.cloud import Cloud, Counts

_PAUSES = 24
"""An interval between two epochs has room for so many tables before their time."""


class Reason(StrEnum):
    """Why a table is computed before its time."""

    CAPACITY = "capacity_changed"
    BURST = "eviction_burst"
    DRIFT = "sla_drift"


class Mark(NamedTuple):
    """What of a cloud is compared; `promised`: how many of its running spot instances may be evicted by their SLAs."""

    at_us: int
    counts: Counts
    nodes: frozenset[tuple[int, NodeStatus]]
    promised: float


def mark(cloud: Cloud, now_us: int) -> Mark:
    """The cloud as it is now."""
    nodes = frozenset((node.index, node.status) for node in cloud.nodes.values())
    spot = (instance for instance in cloud.running.values() if instance.market is Market.SPOT)
    default = cloud.policy.eviction_probability
    promised = sum(default if instance.probability is None else instance.probability for instance in spot)
    return Mark(now_us, cloud.counts, nodes, promised)


def recompute_reason(epoch: Mark, now: Mark, policy: Policy) -> Reason | None:
    """Why a table should be computed now, `epoch` being the cloud when the last one was; None where it need not.

    At most once in a 24th of the interval: a table does not help against the burst that it is learning from.
    """
    if policy.guarantee is Guarantee.NONE or now.at_us < epoch.at_us + policy.recompute_every_us // _PAUSES:
        return None
    if now.nodes != epoch.nodes:
        return Reason.CAPACITY
    if is_burst(epoch, now, policy.eviction_probability):
        return Reason.BURST
    if is_over(now.counts, policy.eviction_probability) and not is_over(epoch.counts, policy.eviction_probability):
        return Reason.DRIFT
    return None


def is_burst(epoch: Mark, now: Mark, probability: float) -> bool:
    """Whether more was evicted since the epoch than was promised, by more than chance (three deviations) explains."""
    admitted = now.counts.spot_admitted - epoch.counts.spot_admitted
    promised = epoch.promised + probability * admitted
    return now.counts.spot_evicted - epoch.counts.spot_evicted > promised + 3 * sqrt(promised)


def is_over(counts: Counts, probability: float) -> bool:
    """Whether the ratio over the whole log is beyond the SLA."""
    return counts.spot_evicted > probability * counts.spot_admitted
