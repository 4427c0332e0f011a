"""The rule of the strata: agreement with the oracle, and what each of its lines is for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.strata import admits

from app.admission.strata import AdmittedBy, Books, BookStanding, admitting_line
from app.domain.events import Event, InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, EvictionReason, Market

P = 1 / 64
"""A promise whose multiples are exact, so that floats and fractions agree."""
LIFETIMES_US = [0, HOUR_US // 2, HOUR_US, 6 * HOUR_US, 2 * DAY_US, 20 * DAY_US]


def started(at_us: int, name: str, lifetime_us: int, risk: float | None, promise: float = P) -> InstanceStarted:
    basis = Basis(3, 1, promise, HOUR_US, risk)
    return InstanceStarted(
        at_us=at_us,
        instance_id=name,
        market=Market.SPOT,
        flavor="f",
        node="n",
        lifetime_us=lifetime_us,
        basis=basis,
    )


def evicted(at_us: int, name: str, reason: EvictionReason = EvictionReason.ON_DEMAND_START) -> InstanceEvicted:
    return InstanceEvicted(at_us=at_us, instance_id=name, reason=reason, cause_seq=1)


@given(st.integers(0, 100_000), st.integers(1, 80))
@settings(max_examples=200, deadline=None)
def test_every_verdict_agrees_with_the_oracle(seed: int, steps: int) -> None:
    random, books, log, now_us = Random(seed), Books(), list[Event](), 0
    running: list[str] = []
    for number in range(steps):
        now_us += random.choice([0, HOUR_US // 4, HOUR_US, DAY_US])
        promise, lifetime_us = random.choice([P, 4 * P]), random.choice(LIFETIMES_US)
        risk = random.choice([0.0001, 1 / 256, 1 / 128, 1 / 64, 1 / 48, 1 / 16, 1 / 4])
        standing = books.standing(promise, lifetime_us, now_us)
        line = admitting_line(standing, risk, promise)
        assert (line is not None) == admits(log, now_us, lifetime_us, risk, promise)
        events: list[Event] = []
        if line is not None or random.random() < 0.3:
            events.append(started(now_us, f"i{number}", lifetime_us, risk, promise))
            running.append(f"i{number}")
        if running and random.random() < 0.5:
            name = running.pop(random.randrange(len(running)))
            reason = random.choice([EvictionReason.ON_DEMAND_START, EvictionReason.DRILL])
            end = InstanceStopped(at_us=now_us, instance_id=name)
            events.append(random.choice([end, evicted(now_us, name, reason)]))
        for event in events:
            books.fold(event)
            log.append(event)


def test_zero_risk_earns_nothing() -> None:
    """Farming with starts that cannot be evicted buys nobody in."""
    books = Books()
    for number in range(4000):
        books.fold(started(number, f"i{number}", 60, 1e-9))
    assert books.standing(P, 60, 0).left < 0.001


def test_a_stratum_does_not_pay_for_another() -> None:
    books = Books()
    for number in range(100):
        books.fold(started(0, f"i{number}", HOUR_US // 2, P))
    assert books.standing(P, HOUR_US // 2, 0).left == pytest.approx(100 * P)
    assert books.standing(P, DAY_US, 0) == BookStanding(0.0, 0.0, 0)
    assert books.standing(2 * P, HOUR_US // 2, 0) == BookStanding(0.0, 0.0, 0)


def test_only_an_eviction_in_time_costs() -> None:
    books = Books()
    for number, at_us in enumerate((HOUR_US, HOUR_US + 1)):
        books.fold(started(0, f"i{number}", HOUR_US, P))
        books.fold(evicted(at_us, f"i{number}"))
    books.fold(started(0, "drilled", HOUR_US, P))
    books.fold(evicted(1, "drilled", EvictionReason.DRILL))
    assert books.standing(P, HOUR_US, 2).left == pytest.approx(3 * P - 1)


@pytest.mark.parametrize(
    ("standing", "risk", "line"),
    [
        (BookStanding(0.0, 0.0, 99), P / 2, AdmittedBy.SMALL),
        (BookStanding(-1.0, 0.0, 0), P / 2, AdmittedBy.SMALL),
        (BookStanding(0.0, 0.0, 4), P, AdmittedBy.WITHIN),
        (BookStanding(0.0, 0.0, 5), P, None),
        (BookStanding(6.5, 0.0, 5), P, AdmittedBy.WITHIN),
        (BookStanding(-0.1, 0.0, 0), P, None),
        (BookStanding(1.0, 0.0, 1), 5 * P, AdmittedBy.PAID),
        (BookStanding(1.0, 0.5, 1), 5 * P, None),
        (BookStanding(1.0, 0.0, 2), 5 * P, None),
        (BookStanding(99.0, 0.0, 2), 5.1 * P, None),
    ],
)
def test_each_line(standing: BookStanding, risk: float, line: AdmittedBy | None) -> None:
    assert admitting_line(standing, risk, P) == line
