"""Callers choose their promises: what none of these gets them, and what it does not take from others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_longest_in_a_share import CalmQuotes
from test_wanted import Led

from app.admission import strata
from app.admission.limits import MOST_CLASSES
from app.admission.strata import lines_of
from app.domain.budgets import AdmittedBy, Book, BudgetUnit
from app.domain.events import InstanceRejected, InstanceStarted
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee, Market, Rejection


def asked(name: str, hours: float, promise: float) -> StartRequest:
    return StartRequest(name, Market.SPOT, "c1", int(hours * HOUR_US), promise, DAY_US, "owner")


def led(hourly: float, cores: int = 16, **policy: object) -> Led:
    """A cloud under the stratified guarantee in which each hour risks so much."""
    found = Led(cores=cores, guarantee=Guarantee.STRATIFIED, **policy)
    found.quotes = CalmQuotes(hourly=hourly)
    return found


@pytest.mark.parametrize(("promise", "highest"), [(0.01, 0.03), (0.2, 0.6), (0.34, 0.67), (0.5, 0.75), (0.9, 0.95)])
def test_no_promise_makes_any_risk_payable(promise: float, highest: float) -> None:
    line = lines_of(Book(0, None, 9.0, 0, 0.0, 0), promise)[2]
    assert line.name is AdmittedBy.PAID
    assert line.risk == pytest.approx(highest)


def test_what_will_nearly_surely_be_evicted_is_not_paid_for_by_a_new_book() -> None:
    cloud = led(0.0416)
    surely = cloud.take(asked("a", 24, 0.34))
    assert isinstance(surely, InstanceRejected)
    assert surely.reason is Rejection.BUDGET_EXHAUSTED
    risky = cloud.take(asked("b", 15, 0.34))
    assert isinstance(risky, InstanceStarted)
    assert risky.basis.book.admitted_by is AdmittedBy.PAID
    cloud.check()


def test_below_an_hour_a_book_pays_for_what_it_has_earned() -> None:
    """An hour has places that nobody has earned; what is shorter has as many as its book has evictions left."""
    cloud = led(0.3, cores=64)
    refused = cloud.take(asked("new", 0.9, 0.2))
    assert isinstance(refused, InstanceRejected)
    assert refused.basis.book.affordable_us == pytest.approx(0.667 * HOUR_US, rel=0.01), "what is within the promise"
    an_hour = cloud.take(asked("hour", 1, 0.2))
    assert isinstance(an_hour, InstanceStarted)
    assert an_hour.basis.book.admitted_by is AdmittedBy.PAID
    for number in range(4):
        assert isinstance(cloud.take(asked(f"small-{number}", 0.3, 0.2)), InstanceStarted)
    assert isinstance(cloud.take(asked("too soon", 0.9, 0.2)), InstanceRejected), "four fifths of an eviction are left"
    assert isinstance(cloud.take(asked("small", 0.3, 0.2)), InstanceStarted)
    assert isinstance(cloud.take(asked("paid", 0.9, 0.2)), InstanceStarted)
    assert isinstance(cloud.take(asked("one too many", 0.9, 0.2)), InstanceRejected)
    cloud.check()


def test_what_was_paid_before_it_was_earned_is_still_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of before decision 286 hold such starts."""
    monkeypatch.setattr(strata, "unearned_places", lambda book: strata.RISKY_BEYOND)
    cloud = led(0.3)
    assert isinstance(cloud.take(asked("new", 0.9, 0.2)), InstanceStarted)
    cloud.check()


def test_harmless_starts_at_tiny_promises_do_not_close_the_paid_line() -> None:
    """Each bears all of its promise, but of a promise of 1.2 % less than half."""
    cloud = led(0.000575)
    for number in range(5):
        assert isinstance(cloud.take(asked(f"closer-{number}", 8, 0.0046)), InstanceStarted)
    honest = cloud.take(asked("honest", 45, 0.012))
    assert isinstance(honest, InstanceStarted)
    assert (honest.basis.book.admitted_by, honest.basis.book.risky) == (AdmittedBy.PAID, 0)
    of_tiny = cloud.take(asked("own", 8, 0.0046))
    assert of_tiny.basis.book.risky == 6, "of their own promise they bear much, as the honest one does"
    cloud.check()


def test_starts_at_high_promises_close_the_line_of_low_ones() -> None:
    """They risk more than half of both."""
    cloud = led(0.0006)
    for number in range(5):
        assert isinstance(cloud.take(asked(f"risky-{number}", 47, 0.028)), InstanceStarted)
    refused = cloud.take(asked("honest", 45, 0.012))
    assert isinstance(refused, InstanceRejected)
    assert refused.basis.book.risky == 5
    cloud.check()


def test_in_core_hours_a_new_promise_does_not_make_a_heavy_start_usual() -> None:
    cloud = led(0.001, budget=BudgetUnit.CORE_HOURS)
    for number in range(4):
        assert isinstance(cloud.take(asked(f"usual-{number}", 9, 0.05)), InstanceStarted)
    for promise in (0.05, 0.050000001):
        heavy = cloud.take(asked(f"heavy-{promise}", 40, promise))
        assert isinstance(heavy, InstanceRejected), promise
        assert heavy.basis.book.mean_core_hours == pytest.approx(9)
    assert isinstance(cloud.take(asked("light", 9, 0.050000001)), InstanceStarted)
    other = led(0.001, budget=BudgetUnit.CORE_HOURS)
    assert isinstance(other.take(asked("first", 40, 0.05)), InstanceStarted), "nothing else is usual there"
    cloud.check()
    other.check()


def test_no_promise_is_proposed_that_would_be_one_too_many() -> None:
    cloud = led(0.001, cores=MOST_CLASSES + 9)
    before = cloud.take(replace(asked("early", 40, 0.01)))
    assert isinstance(before, InstanceRejected)
    assert before.acceptable.probability == pytest.approx(0.04)
    for number in range(MOST_CLASSES):
        assert isinstance(cloud.take(asked(f"of-class-{number}", 1, 0.01 + number / 1e4)), InstanceStarted)
    after = cloud.take(asked("late", 40, 0.01))
    assert isinstance(after, InstanceRejected)
    assert after.acceptable.probability is None
    assert after.acceptable.lifetime_us == before.acceptable.lifetime_us
    cloud.check()
