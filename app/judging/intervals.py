"""The interval of a probability that was seen in so many of so many trials: the one that everything is judged by."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

from app.engine.compiled import compiled, inner

CONFIDENCE = 0.95
_HALVINGS = 60
_TERMS = 20_000
_EXACT = 1e-13
_TINY = 1e-300


def exact_interval(hits: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for `hits` in `count` independent trials; (0, 1) without trials.

    Each end is the probability at which so many hits, or so few, would just be as rare as half of 1 - confidence.
    """
    rare = (1 - confidence) / 2
    low = float(_quantile(hits, count - hits + 1, rare)) if hits else 0.0
    high = float(_quantile(hits + 1, count - hits, 1 - rare)) if hits < count else 1.0
    return low, high


@compiled
def _quantile(a: int, b: int, share: float) -> float:
    """Return the x below which this share of the beta distribution lies, found by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _beta(float(a), float(b), middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@inner
def _beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function."""
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return float(front * _fraction(a, b, x) / a)
    return float(1.0 - front * _fraction(b, a, 1.0 - x) / b)


@inner
def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1.0 / _apart(1.0 - (a + b) * x / (a + 1.0))
    found = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1.0 / _apart(1.0 + even * d), _apart(1.0 + even / c)
        found *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1.0 / _apart(1.0 + odd * d), _apart(1.0 + odd / c)
        found *= d * c
        if abs(d * c - 1.0) < _EXACT:
            break
    return found


@inner
def _apart(value: float) -> float:
    """Return the value, kept apart from 0."""
    return value if abs(value) > _TINY else _TINY
