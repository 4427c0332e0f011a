"""Quotes for tests of promises and budgets, without a history behind them."""

from __future__ import annotations


class ProportionalQuotes:
    """A table that gives a lifetime an eviction probability in proportion to it."""

    epoch, epoch_us = 1, 0

    def __init__(self, certain_us: int) -> None:
        self.certain_us = certain_us

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return max(0, int(probability * self.certain_us) + 1)

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return min(lifetime_us / self.certain_us, 0.999)

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return None
