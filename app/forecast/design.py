"""The design effect of a cloud: how many windows of its past are worth one.

A bound rests on windows as if each were a trial of its own. But bursts strike all long instances at once, so fewer of
them are independent. By how much, the cloud's own past starts tell: those that were followed are taken together by
stratum and by spans of six hours, and every effect on a grid is asked whether its bounds would have covered what
happened in a span. The least effect that covers enough of them holds.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from app.domain.strata import STRATA
from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.engine.compiled import compiled, inner
from app.forecast.bound import upper_bound
from app.forecast.survival import Floats

EFFECTS = np.array([1, 2, 4, 8, 16, 32, 64])
BEFORE = (1, 2, 4, 4, 4)
"""The effect of each stratum before anything is known of the cloud: that of other clouds."""
CONFIDENCE = 0.95
"""The confidence of the bounds that are tried, and the share of spans that they must cover."""
_BEFORE_SPANS = 5
_BEFORE_SHARE = 0.8
"""The experience of other clouds stands for five spans; smaller effects than BEFORE are taken to cover four of them."""
SPAN_US = 6 * HOUR_US
_SPANS = 256
"""The spans whose starts may be open, 64 days: no start is followed for longer."""
_NONE = -1


class Spans(NamedTuple):
    """Followed starts by stratum and span (S, _SPANS); a span has the place of its number modulo _SPANS.

    number: the span's, or _NONE; open, known, evicted: starts without and with a known end, and evicted ones; bounds
    (S, _SPANS, E): the sum of the bounds of those known, by effect; seen (S): spans counted; covered (S, E): of those.
    """

    number: Ints
    open: Ints
    known: Ints
    evicted: Ints
    bounds: Floats
    seen: Ints
    covered: Ints


def no_spans() -> Spans:
    """Return spans without a start."""
    strata, effects = len(STRATA), len(EFFECTS)
    number, open_, known, evicted = np.zeros((4, strata, _SPANS), np.int64)
    number[:] = _NONE
    seen, covered = np.zeros(strata, np.int64), np.zeros((strata, effects), np.int64)
    return Spans(number, open_, known, evicted, np.zeros((strata, _SPANS, effects)), seen, covered)


def design_effects(spans: Spans) -> Floats:
    """Return the effect of each stratum. It never falls with the lifetime, so a longer one is never bounded closer."""
    before = np.where(np.array(BEFORE)[:, None] <= EFFECTS, 1.0, _BEFORE_SHARE)
    shares = (spans.covered + _BEFORE_SPANS * before) / (spans.seen[:, None] + _BEFORE_SPANS)
    enough = shares >= CONFIDENCE
    least = np.where(enough.any(axis=1), enough.argmax(axis=1), len(EFFECTS) - 1)
    return np.maximum.accumulate(EFFECTS[least]).astype(np.float64)


@inner
def open_start(spans: Spans, stratum: int, at_us: int) -> None:
    """Add a start whose end is not known yet."""
    number = at_us // SPAN_US
    place = number % _SPANS
    if spans.number[stratum, place] != number:
        spans.number[stratum, place] = number
        spans.open[stratum, place] = spans.known[stratum, place] = spans.evicted[stratum, place] = 0
        spans.bounds[stratum, place] = 0.0
    spans.open[stratum, place] += 1


@inner
def drop_start(spans: Spans, stratum: int, at_us: int) -> None:
    """Take out a start whose end will not be known."""
    spans.open[stratum, at_us // SPAN_US % _SPANS] -= 1


@inner
def end_start(spans: Spans, stratum: int, at_us: int, said: float, windows: float, evicted: int) -> None:
    """Count the end of a start of which a probability was said, from a history of so many of its windows."""
    place = at_us // SPAN_US % _SPANS
    spans.open[stratum, place] -= 1
    spans.known[stratum, place] += 1
    spans.evicted[stratum, place] += evicted
    for at in range(EFFECTS.shape[0]):
        spans.bounds[stratum, place, at] += bound_of_windows(said, windows / EFFECTS[at], CONFIDENCE)


@inner
def close_spans(spans: Spans, until_us: int) -> None:
    """Count the spans that are over and whose starts have all ended."""
    for stratum in range(spans.number.shape[0]):
        for place in range(spans.number.shape[1]):
            number = spans.number[stratum, place]
            if number == _NONE or spans.open[stratum, place] > 0 or (number + 1) * SPAN_US > until_us:
                continue
            spans.number[stratum, place] = _NONE
            if spans.known[stratum, place] > 0:
                spans.seen[stratum] += 1
                for at in range(spans.covered.shape[1]):
                    is_covered = spans.evicted[stratum, place] <= spans.bounds[stratum, place, at]
                    spans.covered[stratum, at] += int(is_covered)


@compiled
def bound_of_windows(said: float, windows: float, confidence: float) -> float:
    """Return the upper bound of a probability that was estimated from so many windows.

    It is 1 if not as many instances would survive in all of the windows that none surviving would surprise.
    """
    if windows * (1.0 - said) < log(1.0 / (1.0 - confidence)):
        return 1.0
    return upper_bound(said, windows, confidence)
