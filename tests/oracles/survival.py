"""Kaplan-Meier and the reading of quantiles in plain Python, over fractions."""

from __future__ import annotations

from fractions import Fraction

Sample = tuple[int, bool]


def levels(samples: list[Sample]) -> dict[int, Fraction]:
    """The share evicted by each distinct time of an eviction: the product-limit formula as in the textbook."""
    found, survival = {}, Fraction(1)
    for time in sorted({lasted for lasted, evicted in samples if evicted}):
        at_risk = sum(lasted >= time for lasted, _ in samples)
        evicted_then = sum(evicted and lasted == time for lasted, evicted in samples)
        survival *= 1 - Fraction(evicted_then, at_risk)
        found[time] = 1 - survival
    return found


def share_evicted(steps: dict[int, Fraction], longest: int, time: int) -> Fraction:
    """F(time); 1 from the longest observed time on."""
    if time >= longest:
        return Fraction(1)
    return max((level for at, level in steps.items() if at <= time), default=Fraction(0))
