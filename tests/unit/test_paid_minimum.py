"""Starts that take what they can be promised, and whose minimum is paid for by what their book has left."""

from __future__ import annotations

from dataclasses import dataclass, replace

from test_wanted import HourlyQuotes, Led, wish

from app.domain.events import InstanceStarted, Recorded
from app.domain.times import HOUR_US
from app.domain.values import Guarantee, Rejection
from app.domain.wanted import Wanted
from app.engine.cloud import MINUTE_US


@dataclass(frozen=True)
class PaidQuotes(HourlyQuotes):
    """A table whose lifetimes up to an hour risk twice the promise."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return MINUTE_US

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return 0.02 if lifetime_us <= HOUR_US else 1.0


def test_a_minimum_that_is_paid_for_says_why_it_is_no_longer() -> None:
    """Nobody is offered more risk than was promised, so no refusal tells of it."""
    led = Led(guarantee=Guarantee.STRATIFIED)
    led.quotes = PaidQuotes()
    event = led.take(wish("a", Wanted(2 * HOUR_US, HOUR_US)))
    assert isinstance(event, InstanceStarted)
    assert (event.lifetime_us, event.limited_by) == (HOUR_US, Rejection.BUDGET_EXHAUSTED)
    led.check()


def test_a_log_of_before_that_does_not_say_it_is_honest() -> None:
    led = Led(guarantee=Guarantee.STRATIFIED)
    led.quotes = PaidQuotes()
    event = led.take(wish("a", Wanted(2 * HOUR_US, HOUR_US)))
    assert isinstance(event, InstanceStarted)
    led.log[-1] = Recorded(led.log[-1].seq, replace(event, limited_by=None))
    led.audit()
