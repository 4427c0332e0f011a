"""What was promised against what happened (docs/glossary.md, *SLA*): how far the quotes can be trusted.

An admitted spot instance counts as evicted when it was evicted within its declared lifetime: an overrunning one has no
promise left, and a drill breaks none. One that still runs within its lifetime says nothing yet and is left out of the
ratio.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, sqrt
from statistics import NormalDist
from typing import NamedTuple

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.values import EvictionReason

CONFIDENCE = 0.95
EDGES = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
"""Where the bins of estimated probabilities begin; each ends where the next begins, the last at 1."""


class PromiseEnd(StrEnum):
    """What became of the promise that an admitted spot instance was given."""

    KEPT = "kept"
    EVICTED = "evicted"
    OPEN = "open"


class Fate(NamedTuple):
    """An admitted spot instance: the epoch it rests on, the probability promised, the table's estimate, its end.

    The first three are None where no SLA was in force, or no table was read; `bound`, the estimate's upper bound, also
    where there was no evidence for one.
    """

    epoch: int | None
    promised: float | None
    estimated: float | None
    end: PromiseEnd
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Admitted instances of one promise: `evicted` of those that are not `running` within their lifetime any more.

    `promised` is the class's probability, or the mean of a bin's estimates. `low` and `high` bound the probability that
    happened with the table's confidence (Wilson), as if the instances were evicted independently of each other.
    `bound` is the mean of the upper bounds that were quoted, None where no instance had one.
    """

    promised: float | None
    admitted: int
    running: int
    evicted: int
    low: float
    high: float
    bound: float | None = None
    epoch: int | None = None
    estimates: tuple[float, float] | None = None

    @property
    def settled(self) -> int:
        """Those whose promise was kept or broken."""
        return self.admitted - self.running

    @property
    def happened(self) -> float | None:
        """The share evicted of those settled."""
        return self.evicted / self.settled if self.settled else None

    @property
    def is_covered(self) -> bool:
        """Whether no more happened than the bounds allow, where there are any."""
        return self.bound is None or self.happened is None or self.happened <= self.bound

    @property
    def is_exceeded(self) -> bool:
        """Whether the whole interval lies above the promise."""
        return self.promised is not None and self.settled > 0 and self.low > self.promised


@dataclass(frozen=True, slots=True)
class Reliability:
    """By class (promised probability), by bin of estimated probabilities, by epoch and class; each by rising order."""

    confidence: float
    classes: tuple[Calibration, ...]
    estimates: tuple[Calibration, ...]
    epochs: tuple[Calibration, ...]

    @property
    def coverage(self) -> float | None:
        """In how many epochs and classes with a bound, as a ratio, it covered what happened; None without any."""
        rows = [line.is_covered for line in self.epochs if line.bound is not None and line.settled]
        return sum(rows) / len(rows) if rows else None


def fate_of(start: InstanceStarted, end: InstanceStopped | InstanceEvicted | None, now_us: int) -> Fate:
    """What became by `now_us` of an admitted spot instance that ended so; None where it still runs."""
    deadline_us = start.at_us + (start.lifetime_us or 0)
    if isinstance(end, InstanceEvicted) and end.reason is not EvictionReason.DRILL and end.at_us <= deadline_us:
        outcome = PromiseEnd.EVICTED
    else:
        outcome = PromiseEnd.OPEN if end is None and now_us < deadline_us else PromiseEnd.KEPT
    if start.basis is None:
        return Fate(None, None, None, outcome)
    basis = start.basis
    return Fate(basis.epoch, basis.probability, basis.estimated_probability, outcome, basis.probability_bound)


def measure_reliability(fates: Iterable[Fate], confidence: float = CONFIDENCE) -> Reliability:
    """Compare promises and ends, in whatever order they come; pure."""
    known = list(fates)
    classes, bins, epochs = defaultdict(list), defaultdict(list), defaultdict(list)
    for fate in known:
        classes[fate.promised].append(fate)
        epochs[fate.epoch, fate.promised].append(fate)
        if fate.estimated is not None:
            bins[bisect_right(EDGES, fate.estimated) - 1].append(fate)
    return Reliability(
        confidence,
        tuple(_calibrate(classes[p], p, confidence) for p in sorted(classes, key=_none_first)),
        tuple(_calibrate_bin(number, bins[number], confidence) for number in sorted(bins)),
        tuple(
            _calibrate(epochs[key], key[1], confidence, epoch=key[0]) for key in sorted(epochs, key=_both_none_first)
        ),
    )


def wilson_interval(evicted: int, settled: int, confidence: float) -> tuple[float, float]:
    """The interval of a probability of which `evicted` of `settled` were seen (Wilson 1927); (0, 1) of none."""
    if not settled:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, weight = evicted / settled, 1 + z * z / settled
    middle = (share + z * z / (2 * settled)) / weight
    reach = z * sqrt(share * (1 - share) / settled + z * z / (4 * settled * settled)) / weight
    low = 0.0 if not evicted else max(0.0, middle - reach)
    return low, 1.0 if evicted == settled else min(1.0, middle + reach)


def _calibrate(
    fates: list[Fate],
    promised: float | None,
    confidence: float,
    *,
    epoch: int | None = None,
    estimates: tuple[float, float] | None = None,
) -> Calibration:
    counts: Mapping[PromiseEnd, int] = {end: sum(fate.end is end for fate in fates) for end in PromiseEnd}
    admitted, running, evicted = len(fates), counts[PromiseEnd.OPEN], counts[PromiseEnd.EVICTED]
    low, high = wilson_interval(evicted, admitted - running, confidence)
    bounds = [fate.bound for fate in fates if fate.bound is not None]
    bound = fsum(bounds) / len(bounds) if bounds else None
    return Calibration(promised, admitted, running, evicted, low, high, bound, epoch, estimates)


def _calibrate_bin(number: int, fates: list[Fate], confidence: float) -> Calibration:
    """A bin's promise is the mean of its estimates."""
    mean = fsum(fate.estimated or 0.0 for fate in fates) / len(fates)
    return _calibrate(fates, mean, confidence, estimates=(EDGES[number], (*EDGES, 1.0)[number + 1]))


def _none_first(value: float | None) -> tuple[bool, float]:
    return value is not None, value or 0.0


def _both_none_first(key: tuple[int | None, float | None]) -> tuple[tuple[bool, float], tuple[bool, float]]:
    return _none_first(key[0]), _none_first(key[1])
