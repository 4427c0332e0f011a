"""Questions of a large venue, and reports of machines that it never had."""

from __future__ import annotations

from itertools import count
from random import Random

from hostile.target import Target, attack
from hostile.wire import request

_VENUE = "/v1/venues/many"


@attack("reader", needs_venue=True)
async def quotes_of_many_times(target: Target) -> None:
    """Quotes of a venue of 20,000 pools, each as of another time, on 15 connections."""
    chance = Random(1)

    def ask() -> bytes:
        at = f"2026-01-{chance.randint(4, 12):02}T0{chance.randint(0, 9)}:{chance.randint(10, 59)}:00Z"
        return request("GET", f"{_VENUE}/quotes?lifetime_s=3600&at={at}", target.tokens["venues"])

    await target.hammer(15, ask)


@attack("reader", needs_venue=True)
async def quotes_of_many_lifetimes(target: Target) -> None:
    """Quotes of a venue of 20,000 pools, each for another lifetime, on 15 connections."""
    lifetimes = count(60)

    def ask() -> bytes:
        asked = f"lifetime_s={next(lifetimes)}&at=2026-01-12T01:00:00Z"
        return request("GET", f"{_VENUE}/quotes?{asked}", target.tokens["venues"])

    await target.hammer(15, ask)
