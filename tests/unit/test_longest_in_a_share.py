"""Starts that take what they can be promised, of an owner whose share of a book is less than that."""

from __future__ import annotations

from dataclasses import dataclass

from test_wanted import LONGEST, HourlyQuotes, Led

from app.domain.events import InstanceRejected, InstanceStarted
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Guarantee, Market, Rejection
from app.domain.wanted import Wanted


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
