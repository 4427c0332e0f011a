"""Compares promises with outcomes (docs/glossary.md, *SLA*), which shows how far quotes can be trusted.

An admitted spot instance counts as evicted if it was evicted within its declared lifetime. An overrunning one has no
promise left, and a drill breaks none. The ratio leaves out instances that still run within their lifetime.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import NamedTuple

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.strata import stratum_of
from app.domain.values import EvictionReason
from app.judging.intervals import CONFIDENCE, exact_interval
from app.judging.truths import KnownEnd, Truth, truths_of

EDGES = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
"""The lower edges of the bins of estimated probabilities. Each bin ends where the next begins, the last at 1."""


class PromiseEnd(StrEnum):
    """The outcome of the promise to an admitted spot instance."""

    KEPT = "kept"
    EVICTED = "evicted"
    OPEN = "open"


class Fate(NamedTuple):
    """An admitted spot instance: its epoch, the promised probability, the table's estimate, and its end.

    The first three are None if no SLA was in force or no table was read. `bound`, the upper bound of the estimate, is
    also None if there was no evidence for one. `first_end` is the outcome within the lifetime declared at the start, to
    which estimate and bound refer; it differs from `end` only if the lifetime was extended. `stratum` is that of
    this lifetime.
    """

    epoch: int | None
    promised: float | None
    estimated: float | None
    end: PromiseEnd
    bound: float | None = None
    first_end: PromiseEnd | None = None
    stratum: str = ""
    flavor: str = ""

    def as_estimated(self) -> Fate:
        """Return the fate with the outcome that the estimate was for."""
        return self if self.first_end is None else self._replace(end=self.first_end)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Admitted instances of one promise: `evicted` of those that do not count as `running` any more.

    `promised` is the class's probability, or the mean of a bin's estimates. `low` and `high` bound the probability
    observed (`exact_interval`), as if instances were evicted independently. `bound` is the mean of the quoted upper
    bounds; None if no instance had one.
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
        """The number of instances whose promise was kept or broken."""
        return self.admitted - self.running

    @property
    def happened(self) -> float | None:
        """The share evicted of those settled; None if none is settled."""
        return self.evicted / self.settled if self.settled else None

    @property
    def is_covered(self) -> bool:
        """True if no more was evicted than the quoted bound allows, or if there is no bound."""
        return self.bound is None or self.happened is None or self.happened <= self.bound

    @property
    def is_exceeded(self) -> bool:
        """True if the whole interval lies above the promise."""
        return self.promised is not None and self.settled > 0 and self.low > self.promised


@dataclass(frozen=True, slots=True)
class Reliability:
    """Comparisons by class, by bin of estimates, and by epoch and class, each in rising order; and verdicts on them."""

    confidence: float
    classes: tuple[Calibration, ...]
    estimates: tuple[Calibration, ...]
    epochs: tuple[Calibration, ...]
    truths: tuple[Truth, ...] = ()

    @property
    def coverage(self) -> float | None:
        """The share of epochs and classes with a bound in which the bound held; None if there are none."""
        rows = [line.is_covered for line in self.epochs if line.bound is not None and line.settled]
        return sum(rows) / len(rows) if rows else None


def fate_of(
    start: InstanceStarted,
    end: InstanceStopped | InstanceEvicted | None,
    now_us: int,
    lifetime_us: int | None = None,
) -> Fate:
    """Return the outcome at `now_us` of an admitted spot instance. `end` is None if it still runs.

    `lifetime_us`: the lifetime that it was extended to; None: it was not.
    """
    first = _end_within(start.lifetime_us or 0, start, end, now_us)
    outcome = first if lifetime_us is None else _end_within(lifetime_us, start, end, now_us)
    basis, stratum = start.basis, stratum_of(start.lifetime_us or 0)
    if basis is None:
        return Fate(None, None, None, outcome, stratum=stratum, flavor=start.flavor)
    said, bound = basis.estimated_probability, basis.probability_bound
    return Fate(basis.epoch, basis.probability, said, outcome, bound, first, stratum, start.flavor)


def _end_within(
    lifetime_us: int, start: InstanceStarted, end: InstanceStopped | InstanceEvicted | None, now_us: int
) -> PromiseEnd:
    deadline_us = start.at_us + lifetime_us
    if isinstance(end, InstanceEvicted) and end.reason is not EvictionReason.DRILL and end.at_us <= deadline_us:
        return PromiseEnd.EVICTED
    return PromiseEnd.OPEN if end is None and now_us < deadline_us else PromiseEnd.KEPT


def measure_reliability(fates: Iterable[Fate], confidence: float = CONFIDENCE) -> Reliability:
    """Compare promises and ends, given in any order. Pure."""
    known = list(fates)
    classes, bins, epochs = defaultdict(list), defaultdict(list), defaultdict(list)
    for fate in known:
        classes[fate.promised].append(fate)
        epochs[fate.epoch, fate.promised].append(fate.as_estimated())
        if fate.estimated is not None:
            bins[bisect_right(EDGES, fate.estimated) - 1].append(fate.as_estimated())
    return Reliability(
        confidence,
        tuple(_calibrate(classes[p], p, confidence) for p in sorted(classes, key=_none_first)),
        tuple(_calibrate_bin(number, bins[number], confidence) for number in sorted(bins)),
        tuple(
            _calibrate(epochs[key], key[1], confidence, epoch=key[0]) for key in sorted(epochs, key=_both_none_first)
        ),
        truths_of([_known_end(fate.as_estimated()) for fate in known if _is_known(fate.as_estimated())]),
    )


def _is_known(fate: Fate) -> bool:
    return fate.estimated is not None and fate.end is not PromiseEnd.OPEN


def _known_end(fate: Fate) -> KnownEnd:
    evicted = int(fate.end is PromiseEnd.EVICTED)
    return KnownEnd(fate.epoch, fate.stratum, fate.flavor, fate.estimated or 0.0, fate.bound, evicted)


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
    low, high = exact_interval(evicted, admitted - running, confidence)
    bounds = [fate.bound for fate in fates if fate.bound is not None]
    bound = fsum(bounds) / len(bounds) if bounds else None
    return Calibration(promised, admitted, running, evicted, low, high, bound, epoch, estimates)


def _calibrate_bin(number: int, fates: list[Fate], confidence: float) -> Calibration:
    """Return the calibration of a bin. Its promise is the mean of its estimates."""
    mean = fsum(fate.estimated or 0.0 for fate in fates) / len(fates)
    return _calibrate(fates, mean, confidence, estimates=(EDGES[number], (*EDGES, 1.0)[number + 1]))


def _none_first(value: float | None) -> tuple[bool, float]:
    return value is not None, value or 0.0


def _both_none_first(key: tuple[int | None, float | None]) -> tuple[tuple[bool, float], tuple[bool, float]]:
    return _none_first(key[0]), _none_first(key[1])
