"""What can be promised of a start now: the table's word, and no more than the history had time to show."""

from __future__ import annotations

from typing import Protocol

from app.engine.exposure import unseen


class Quotes(Protocol):
    """What a decision reads from a published quantile table."""

    @property
    def epoch(self) -> int:
        """The table's version."""

    @property
    def epoch_us(self) -> int:
        """The end of the history that the table was computed from."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """The lifetime guaranteed at an eviction probability; None where the table has nothing on the flavor."""

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """The eviction probability of a lifetime, 1.0 where it cannot be certified; None as above."""

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """What the eviction probability of a lifetime is below, with this confidence; None where nothing is known."""


def quoted_lifetime_us(quotes: Quotes, flavor: str, slots: int, probability: float, seen_us: int) -> int | None:
    """The lifetime guaranteed at an eviction probability after `seen_us` of history; None where nothing is known.

    Whatever the history shows, the next L bring what it does not with probability L / (seen + L). So no lifetime is
    guaranteed at p that is longer than seen * p / (1 - p).
    """
    quoted_us = quotes.lifetime_us(flavor, slots, probability)
    return None if quoted_us is None else min(quoted_us, int(seen_us * probability / (1 - probability)))


def estimated_probability(quotes: Quotes, flavor: str, slots: int, lifetime_us: int, seen_us: int) -> float | None:
    """The eviction probability of a lifetime after `seen_us` of history; None where nothing is known."""
    estimate = quotes.probability(flavor, slots, lifetime_us)
    return None if estimate is None else max(estimate, unseen(lifetime_us, seen_us))
