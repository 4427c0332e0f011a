"""A refusal for too few windows offers nothing beyond the promise, and nothing beyond the owner's share."""

from __future__ import annotations

from dataclasses import dataclass

from test_wanted import HourlyQuotes, Led, wish

from app.domain.events import ExtensionRejected, InstanceExtended, InstanceRejected, InstanceStarted, QuotaSet
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Guarantee, Market, Rejection

MINUTES_US = 60 * SECOND_US


@dataclass(frozen=True)
class ThinQuotes(HourlyQuotes):
    """A table with windows for lifetimes up to an hour. Half an hour is within a promise of .01, an hour is not."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return HOUR_US // 2

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        if lifetime_us <= HOUR_US:
            return 0.005 if lifetime_us < HOUR_US // 2 else 0.02
        return 1.0

    def windows(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return 5.0 if lifetime_us <= HOUR_US else 1.0

    def lifetime_of_windows(self, flavor: str, slots: int, count: int) -> int:
        return HOUR_US


def led_cloud() -> Led:
    led = Led(guarantee=Guarantee.STRATIFIED, min_windows=4)
    led.quotes = ThinQuotes()
    return led


def test_a_start_is_offered_no_more_than_the_promise() -> None:
    """An hour has the windows, and the book would pay for it."""
    led = led_cloud()
    refused = led.take(StartRequest("a", Market.SPOT, "c1", 2 * HOUR_US, None, DAY_US))
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.TOO_FEW_WINDOWS
    assert refused.acceptable is not None
    assert refused.acceptable.lifetime_us == HOUR_US // 2 - 1
    longest = led.take(wish("b"))
    assert isinstance(longest, InstanceStarted)
    assert longest.lifetime_us == HOUR_US // 2 - SECOND_US
    asked = led.take(StartRequest("c", Market.SPOT, "c1", HOUR_US, None, DAY_US))
    assert isinstance(asked, InstanceStarted), "who asks for it gets it"
    led.check()


def extend(led: Led, owner: str | None) -> int | None:
    """Return what is offered in place of two hours to an instance that was started five minutes before."""
    later_us = DAY_US + 5 * MINUTES_US
    led.take(StartRequest("a", Market.SPOT, "c1", 10 * MINUTES_US, None, DAY_US, owner))
    if owner is not None:
        led.log.append(led.cloud.apply(QuotaSet(at_us=DAY_US, owner=owner, share=0.002)))
        led.cloud.commit()
    refused = led.take(ExtendRequest("a", 2 * HOUR_US, later_us))
    assert isinstance(refused, ExtensionRejected)
    assert refused.reason is Rejection.TOO_FEW_WINDOWS
    assert refused.basis.floor is not None
    return refused.basis.floor.affordable_us


def test_an_extension_is_offered_no_more_than_the_promise() -> None:
    led = led_cloud()
    offered = extend(led, None)
    assert offered == 35 * MINUTES_US - 1
    assert isinstance(led.take(ExtendRequest("a", offered or 0, DAY_US + 5 * MINUTES_US)), InstanceExtended)
    led.check()


def test_an_extension_is_offered_nothing_beyond_its_owners_share() -> None:
    """It was offered what the share then refused."""
    led = led_cloud()
    assert extend(led, "a") == 0
    led.check()
