"""Plain twins of the bounds of venues: windows chosen one by one, and the bound by a fine search."""

from __future__ import annotations

import math
from collections.abc import Sequence


def windows(starts_us: Sequence[int], known: Sequence[bool], lifetime_us: int) -> int:
    """Return how many known starts can be taken, each at least a lifetime after the one taken before."""
    count, free_us = 0, None
    for start_us, is_known in zip(starts_us, known, strict=True):
        if is_known and (free_us is None or start_us >= free_us):
            count, free_us = count + 1, start_us + lifetime_us
    return count


def least_survival(share: float, count: float, confidence: float) -> float:
    """Return the highest survival below the share that Chernoff's bound still rules out, by 80 halvings."""
    if not count or share <= 0.0:
        return 0.0

    def apart(lower: float) -> float:
        found = share * math.log(share / lower)
        return found + (1 - share) * math.log((1 - share) / (1 - lower)) if share < 1.0 else found

    low, high = 1e-300, share
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if count * apart(middle) > -math.log(1 - confidence) else (low, middle)
    return low


def design_effect(covered: Sequence[Sequence[bool]], effects: Sequence[int], confidence: float) -> int:
    """Return the first effect that covered often enough, by counting."""
    for at, effect in enumerate(effects):
        if sum(row[at] for row in covered) >= confidence * len(covered) - 1e-9:
            return effect
    return effects[-1]


def running_ratio(outcomes: Sequence[tuple[float, float]]) -> float:
    """Return paid over said, each weighed by .995 to the number of later ones, kept between .8 and 2."""
    weights = [0.995 ** (len(outcomes) - 1 - at) for at in range(len(outcomes))]
    paid = sum(weight * one[0] for weight, one in zip(weights, outcomes, strict=True))
    said = sum(weight * one[1] for weight, one in zip(weights, outcomes, strict=True))
    return min(max(paid / said, 0.8), 2.0) if said else 1.0
