"""The reliability table against a small log told by hand."""

from __future__ import annotations

import pytest

from app.domain.events import Event, InstanceEvicted, InstanceStarted, InstanceStopped, Recorded
from app.domain.values import Basis, EvictionReason, Market
from app.services.reliability import ReliabilityTable


def start(name: str, epoch: int, promised: float, estimated: float | None, bound: float | None) -> InstanceStarted:
    basis = Basis(5, epoch, promised, 1, estimated, probability_bound=bound)
    return InstanceStarted(0, name, Market.SPOT, "f", "n", 100, None, basis)


def evict(name: str, at_us: int) -> InstanceEvicted:
    return InstanceEvicted(at_us, name, EvictionReason.ON_DEMAND_START, 99)


def test_promises_are_set_against_what_happened() -> None:
    events: list[Event] = [
        start("a", 1, 0.1, 0.0, 0.2),
        start("b", 1, 0.1, 0.1, 0.4),
        start("c", 1, 0.01, None, None),
        start("d", 2, 0.1, 0.05, 0.1),
        InstanceStarted(0, "od", Market.ON_DEMAND, "f", "n"),
        evict("a", 100),
        InstanceStopped(100, "b"),
        evict("c", 101),
        evict("d", 50),
    ]
    table = ReliabilityTable()
    table.extend(Recorded(seq, event) for seq, event in enumerate(events, start=1))
    found = [(r.epoch, r.probability, r.admitted, r.evicted, r.estimated, r.bound) for r in table.rows()]
    assert found == [
        (1, 0.01, 1, 0, 1.0, 1.0),
        (1, 0.1, 2, 1, pytest.approx(0.05), pytest.approx(0.3)),
        (2, 0.1, 1, 1, 0.05, 0.1),
    ]
    assert table.coverage() == pytest.approx(1 / 3)
    assert table.rows()[1].interval == pytest.approx((0.0945, 0.9055), abs=1e-3)


def test_an_empty_log_covers_nothing() -> None:
    assert ReliabilityTable().coverage() is None
