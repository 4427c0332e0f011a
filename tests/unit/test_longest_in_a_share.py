"""Starts that take what they can be promised, of an owner whose share of a book is less than that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from test_wanted import LONGEST, HourlyQuotes, Led

from app.domain.events import InstanceExtended, InstanceRejected, InstanceStarted
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Guarantee, Market, Rejection
from app.domain.wanted import Wanted
from app.engine.cloud import MINUTE_US
from app.explaining.rules.wantwords import limit_in_words


@dataclass(frozen=True)
class TenthQuotes(HourlyQuotes):
    """A table that estimates a tenth for each hour."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return int(probability * 10 * HOUR_US) + 1

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return min(lifetime_us / (10 * HOUR_US), 0.999)


def start(name: str, wanted: Wanted) -> StartRequest:
    return StartRequest(name, Market.SPOT, "c1", None, None, DAY_US, "owner", wanted)


def test_it_gets_what_its_owners_share_affords() -> None:
    """A risk of a half is promised, and three tenths are the share: three hours, found to some seconds."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.5, owner_share=0.3)
    led.quotes = TenthQuotes()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert 3 * HOUR_US - 8 * SECOND_US <= (first.lifetime_us or 0) <= 3 * HOUR_US
    assert (first.lifetime_us or 0) % SECOND_US == 0
    assert first.limited_by is Rejection.QUOTA_EXCEEDED
    second = led.take(start("b", Wanted(None, HOUR_US)))
    assert isinstance(second, InstanceRejected)
    assert second.reason is Rejection.QUOTA_EXCEEDED
    led.check()


def declared(name: str, hours: float) -> StartRequest:
    return replace(start(name, LONGEST), lifetime_us=int(hours * HOUR_US), wanted=None)


def test_what_its_promise_limits_is_not_laid_to_its_share() -> None:
    """The horizon is beyond the share, but two hours, all that a fifth promises, are within it."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.2, owner_share=0.3)
    led.quotes = TenthQuotes()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert (first.lifetime_us, first.limited_by) == (2 * HOUR_US, Rejection.BUDGET_EXHAUSTED)
    led.check()


def test_each_stratum_has_a_share_of_its_own() -> None:
    """Seven hours are beyond the share of one to eight, that of the longer ones is not."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.95, owner_share=0.9, cores=8)
    led.quotes = TenthQuotes()
    led.take(declared("x", 7), declared("y", 2))
    assert isinstance(led.take(declared("z", 7)), InstanceRejected)
    longest = led.take(start("a", LONGEST))
    assert isinstance(longest, InstanceStarted)
    assert 9 * HOUR_US - 20 * SECOND_US <= (longest.lifetime_us or 0) <= 9 * HOUR_US
    assert longest.limited_by is Rejection.QUOTA_EXCEEDED
    led.check()


@dataclass(frozen=True)
class CalmQuotes(TenthQuotes):
    """A table that estimates so much for each hour."""

    hourly: float = 0.0001

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return int(probability / self.hourly * HOUR_US) + 1

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return lifetime_us / HOUR_US * self.hourly


def test_it_is_offered_no_more_risk_than_was_promised() -> None:
    """The horizon, 720 hours, risks .072, which the book would pay for; 500 hours risk .05."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.05, table_max_age_us=30 * DAY_US)
    led.quotes = CalmQuotes()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert (first.lifetime_us, first.limited_by) == (500 * HOUR_US, Rejection.BUDGET_EXHAUSTED)
    least = led.take(start("b", Wanted(None, 600 * HOUR_US)))
    assert isinstance(least, InstanceStarted)
    assert (least.lifetime_us, least.limited_by) == (600 * HOUR_US, Rejection.BUDGET_EXHAUSTED)
    only = led.take(start("c", Wanted(600 * HOUR_US, 600 * HOUR_US)))
    assert isinstance(only, InstanceStarted)
    assert (only.lifetime_us, only.limited_by) == (600 * HOUR_US, None)
    led.check()


def test_it_is_extended_to_no_more_risk_than_was_promised() -> None:
    """An hour at .05 for each; then the risk falls, and what is left of a promise of .05 lasts 525 hours more."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.05, table_max_age_us=30 * DAY_US)
    led.quotes = CalmQuotes(hourly=0.05)
    led.take(start("a", LONGEST))
    led.quotes = CalmQuotes(hourly=0.025 / 525)
    led.take(replace(declared("b", 0.01), at_us=DAY_US + HOUR_US, owner=None))
    (longer,) = led.of(InstanceExtended)
    assert longer.total_risk == pytest.approx(0.05, abs=1e-6)
    assert longer.lifetime_us == pytest.approx(525.5 * HOUR_US, abs=2 * SECOND_US)
    assert longer.limited_by is Rejection.BUDGET_EXHAUSTED
    led.check()


@dataclass(frozen=True)
class FewWindows(TenthQuotes):
    """A table of tenths, with enough windows for six hours."""

    def windows(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return 100.0 if lifetime_us <= 6 * HOUR_US else 1.0

    def lifetime_of_windows(self, flavor: str, slots: int, count: int) -> int:
        return 6 * HOUR_US


def test_it_gets_its_share_also_where_windows_are_too_few_for_more() -> None:
    """Six hours have enough windows and are beyond the share, so the refusal for too few windows tells of nothing."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.8, owner_share=0.3, min_windows=4)
    led.quotes = FewWindows()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert 3 * HOUR_US - 8 * SECOND_US <= (first.lifetime_us or 0) <= 3 * HOUR_US
    led.check()


@pytest.mark.parametrize(
    ("promise", "hours", "limit"), [(0.2, 2, Rejection.BUDGET_EXHAUSTED), (0.8, 6, Rejection.TOO_FEW_WINDOWS)]
)
def test_windows_are_named_as_the_limit_only_where_they_are(promise: float, hours: int, limit: Rejection) -> None:
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=promise, min_windows=4)
    led.quotes = FewWindows()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert (first.lifetime_us, first.limited_by) == (hours * HOUR_US, limit)
    led.check()


def test_a_refusal_for_too_few_windows_tells_what_the_share_affords() -> None:
    """It said that no lifetime would have been accepted, and six hours in its figures."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.8, owner_share=0.3, min_windows=4)
    led.quotes = FewWindows()
    refused = led.take(declared("a", 9))
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.TOO_FEW_WINDOWS
    assert refused.acceptable is not None
    assert refused.basis is not None
    assert refused.basis.floor is not None
    told_us = refused.acceptable.lifetime_us
    assert told_us is not None
    assert 3 * HOUR_US - SECOND_US <= told_us <= 3 * HOUR_US
    assert refused.basis.floor.affordable_us == told_us
    assert isinstance(led.take(declared("b", told_us / HOUR_US)), InstanceStarted)
    led.check()


def test_it_is_extended_by_what_its_share_affords() -> None:
    """At half of its three hours a half of its share is free again, so another hour and a half is to be had."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.5, owner_share=0.3)
    led.quotes = TenthQuotes()
    first = led.take(start("a", LONGEST))
    assert isinstance(first, InstanceStarted)
    assert first.lifetime_us is not None
    led.take(replace(declared("b", 0.01), at_us=DAY_US + 2 * HOUR_US, owner=None))
    (longer,) = led.of(InstanceExtended)
    assert longer.is_automatic
    assert longer.limited_by is Rejection.QUOTA_EXCEEDED
    assert 4.5 * HOUR_US - MINUTE_US <= longer.lifetime_us <= 4.5 * HOUR_US + MINUTE_US
    led.check()


def test_what_limits_it_is_told_in_words() -> None:
    for reason in Rejection:
        assert reason.value not in limit_in_words(reason)
