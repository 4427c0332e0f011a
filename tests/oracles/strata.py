"""The rule of the strata in plain Python: everything is computed anew from the whole log, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from app.domain.events import Event, InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.values import EvictionReason, Market

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
BANDS_US = (0, HOUR_US, 8 * HOUR_US, 48 * HOUR_US, 168 * HOUR_US)


def band(lifetime_us: int) -> int:
    return max(number for number, begin_us in enumerate(BANDS_US) if lifetime_us >= begin_us)


def admits(log: Sequence[Event], now_us: int, lifetime_us: int, risk: float, promise: float) -> bool:
    """Return True if one of the three lines admits the start."""
    entered = [
        event
        for event in log
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT and event.basis is not None
        if event.basis.probability is not None and band(event.lifetime_us or 0) == band(lifetime_us)
    ]
    p, r = Fraction(promise), Fraction(risk)
    ends = {e.instance_id: e for e in log if isinstance(e, InstanceStopped | InstanceEvicted)}
    lefts, earned, risky = {p: Fraction(0)}, Fraction(0), 0
    for event in entered:
        own = Fraction((event.basis and event.basis.probability) or 0)
        risk_then = Fraction((event.basis and event.basis.estimated_probability) or 0)
        end, length = ends.get(event.instance_id), event.lifetime_us or 0
        earns = min(own, 4 * risk_then) * min(Fraction(length, MINUTE_US), 1)
        lefts[own] = lefts.get(own, Fraction(0)) + earns
        earned += earns if own == p else 0
        if isinstance(end, InstanceEvicted) and end.reason is not EvictionReason.DRILL:
            lefts[own] -= end.at_us <= event.at_us + length
        if end is None and event.at_us + length > now_us:
            risky += risk_then * Fraction(event.at_us + length - now_us, length) > max(own, p) / 2
    left, owed = lefts[p], -sum(min(left, 0) for other, left in lefts.items() if other != p)
    pays, unearned = left >= 0 and (left >= owed or earned >= 1), 5 if band(lifetime_us) else 0
    return r <= p or (r <= min(3 * p, (1 + p) / 2) and pays and risky + 1 <= max(unearned, left // 1))
