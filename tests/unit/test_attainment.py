"""Tests of the standing of SLA classes, read from a folded state."""

from __future__ import annotations

import pytest

from app.domain.events import CloudCreated, FlavorAdded, InstanceEvicted, InstanceStarted, InstanceStopped, NodeAdded
from app.domain.times import HOUR_US
from app.domain.values import Basis, EvictionReason, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.judging.attainment import attainment_now
from app.judging.intervals import exact_interval


def make_cloud(guarantee: Guarantee) -> Cloud:
    """Class 0.1: one evicted in time, one when it overran, one stopped, one runs, one overruns; class 0.5: one runs."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=guarantee, eviction_probability=0.1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(8)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    for name, lifetime_us in (("lost", 9), ("late", 1), ("kept", 9), ("runs", 10 * HOUR_US), ("over", 2)):
        start(cloud, name, lifetime_us, None)
    start(cloud, "other", 10 * HOUR_US, 0.5)
    cloud.apply(InstanceEvicted(at_us=5, instance_id="lost", reason=EvictionReason.ON_DEMAND_START, cause_seq=1))
    cloud.apply(InstanceEvicted(at_us=5, instance_id="late", reason=EvictionReason.ON_DEMAND_START, cause_seq=1))
    cloud.apply(InstanceStopped(at_us=5, instance_id="kept"))
    return cloud


def start(cloud: Cloud, name: str, lifetime_us: int, own: float | None) -> None:
    basis = Basis(8, 1, 0.1 if own is None else own, 1, 0.0)
    cloud.apply(
        InstanceStarted(
            at_us=0,
            instance_id=name,
            market=Market.SPOT,
            flavor="c1",
            node="n",
            lifetime_us=lifetime_us,
            probability=own,
            basis=basis,
        )
    )


@pytest.mark.parametrize("guarantee", [Guarantee.PER_INSTANCE, Guarantee.POOLED])
def test_every_class_stands_by_itself(guarantee: Guarantee) -> None:
    first, second = attainment_now(make_cloud(guarantee), HOUR_US)()
    assert (first.promised, first.admitted, first.running, first.evicted, first.settled) == (0.1, 5, 1, 1, 4)
    assert (second.promised, second.admitted, second.running, second.evicted) == (0.5, 1, 1, 0)
    assert (first.low, first.high) == exact_interval(1, 5)
    assert first.ratio == 0.2
    assert not first.is_kept
    assert second.is_kept
    assert first.earned == pytest.approx(0.5)
    charged = 0.0 if guarantee is Guarantee.PER_INSTANCE else first.committed
    assert first.left == pytest.approx(0.5 - 1 - charged)
    assert (first.committed > 0) is (guarantee is Guarantee.POOLED)


@pytest.mark.parametrize("running", range(8))
def test_the_ratio_lies_in_its_own_interval(running: int) -> None:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.PER_INSTANCE, eviction_probability=0.1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(9)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    for number in range(running + 2):
        start(cloud, f"i{number}", 10 * HOUR_US, None)
    for name in ("i0", "i1"):
        cloud.apply(InstanceEvicted(at_us=5, instance_id=name, reason=EvictionReason.ON_DEMAND_START, cause_seq=1))
    (found,) = attainment_now(cloud, HOUR_US)()
    assert found.ratio is not None
    assert found.low <= found.ratio <= found.high
    assert found.is_open is (found.low <= 0.1)


def test_a_cloud_without_promises_has_no_class() -> None:
    assert attainment_now(Cloud(), 0)() == []
