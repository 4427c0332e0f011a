"""Tests of the causes for which a table is computed early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.admission.recompute import Mark, mark, recompute_reason
from app.domain.events import CloudCreated, FlavorAdded, InstanceEvicted, InstanceStarted, NodeAdded, NodeDrained
from app.domain.times import HOUR_US
from app.domain.values import Basis, EvictionReason, Guarantee, Market, NodeStatus, Policy, Resources, RunCause
from app.engine.cloud import ClassCounts, Cloud

POLICY = Policy(eviction_probability=0.01)
EPOCH = Mark(0, {0.01: ClassCounts(1000, 9)}, frozenset(), 1.0)


def later(admitted: int = 0, evicted: int = 0, at_us: int = HOUR_US) -> Mark:
    return EPOCH._replace(at_us=at_us, classes={0.01: ClassCounts(1000 + admitted, 9 + evicted)})


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (later(), None),
        (later(evicted=1), None),
        (later(evicted=2), RunCause.SLA_DRIFT),
        (later(admitted=200, evicted=2), None),
        (later(evicted=5), RunCause.EVICTION_BURST),
        (later(admitted=300, evicted=10), RunCause.SLA_DRIFT),
        (later(admitted=300, evicted=11), RunCause.EVICTION_BURST),
        (later(evicted=5, at_us=HOUR_US // 5), None),
        (later()._replace(classes=EPOCH.classes | {0.25: ClassCounts(3, 1)}), RunCause.SLA_DRIFT),
        (later()._replace(classes=EPOCH.classes | {0.25: ClassCounts(4, 1)}), None),
        (later()._replace(nodes=frozenset({("n", Resources(4), NodeStatus.OPEN)})), RunCause.CAPACITY_CHANGED),
    ],
)
def test_the_reason(now: Mark, reason: RunCause | None) -> None:
    assert recompute_reason(EPOCH, now, POLICY) == reason
    assert recompute_reason(EPOCH, now, replace(POLICY, guarantee=Guarantee.NONE)) is None


def test_drift_is_told_once() -> None:
    over = EPOCH._replace(classes={0.01: ClassCounts(1000, 50)})
    assert recompute_reason(over, over._replace(at_us=HOUR_US), POLICY) is None


def test_a_mark_is_read_off_the_cloud() -> None:
    cloud = Cloud()
    spot = InstanceStarted(
        at_us=0,
        instance_id="a",
        market=Market.SPOT,
        flavor="f",
        node="n",
        lifetime_us=5,
        probability=None,
        basis=Basis(4, 1, 0.01),
    )
    for event in (
        CloudCreated(at_us=0, policy=POLICY),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="f", demand=Resources(1)),
        spot,
    ):
        cloud.apply(event)
    assert mark(cloud, 7) == Mark(7, {0.01: ClassCounts(1)}, frozenset({("n", Resources(4), NodeStatus.OPEN)}), 0.01)
    cloud.apply(NodeDrained(at_us=1, node="n"))
    cloud.apply(
        InstanceEvicted(at_us=1, instance_id="a", reason=EvictionReason.ON_DEMAND_START, cause_seq=cloud.seq + 2)
    )
    assert mark(cloud, 7) == Mark(
        7, {0.01: ClassCounts(1, 1)}, frozenset({("n", Resources(4), NodeStatus.DRAINED)}), 0.0
    )
