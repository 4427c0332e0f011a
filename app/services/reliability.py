"""What was promised against what happened: for every epoch and SLA class, from the events of a log alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped, Recorded
from app.domain.values import Market

_Z = 1.959964
"""Two-sided 95 %."""


@dataclass(slots=True)
class Reliability:
    """The spot instances that one epoch's table admitted with one promised eviction probability.

    `estimated` and `bound` are means over them, of what the table said and of its confidence bound.
    """

    epoch: int
    probability: float
    admitted: int = 0
    evicted: int = 0
    estimated: float = 0.0
    bound: float = 0.0

    def admit(self, estimated: float, bound: float) -> None:
        """Take in one more."""
        self.admitted += 1
        self.estimated += (estimated - self.estimated) / self.admitted
        self.bound += (bound - self.bound) / self.admitted

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the eviction ratio."""
        count, ratio = self.admitted, self.evicted / self.admitted
        middle = ratio + _Z * _Z / (2 * count)
        half = _Z * sqrt(ratio * (1 - ratio) / count + (_Z / (2 * count)) ** 2)
        scale = 1 + _Z * _Z / count
        return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)

    @property
    def covered(self) -> bool:
        """Whether what happened stayed below what the bounds say."""
        return self.evicted <= self.bound * self.admitted


class ReliabilityTable:
    """Folds a log, in order. An eviction counts while the instance has its promise: not once it overruns."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, float], Reliability] = {}
        self._running: dict[str, tuple[Reliability, int]] = {}

    def extend(self, recorded: Iterable[Recorded]) -> None:
        """Take the log's next events."""
        for item in recorded:
            event = item.event
            if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
                self._start(event)
            elif isinstance(event, InstanceStopped):
                self._running.pop(event.instance_id, None)
            elif isinstance(event, InstanceEvicted) and event.instance_id in self._running:
                row, deadline_us = self._running.pop(event.instance_id)
                row.evicted += event.at_us <= deadline_us

    def rows(self) -> list[Reliability]:
        """By epoch, then by promised probability."""
        return [self._rows[key] for key in sorted(self._rows)]

    def coverage(self) -> float | None:
        """In how many of the rows, as a ratio, the bounds covered what happened; None without rows."""
        rows = self.rows()
        return sum(row.covered for row in rows) / len(rows) if rows else None

    def _start(self, event: InstanceStarted) -> None:
        basis = event.basis
        if basis is None or basis.epoch is None or basis.probability is None:
            return
        row = self._rows.setdefault((basis.epoch, basis.probability), Reliability(basis.epoch, basis.probability))
        row.admit(_or_one(basis.estimated_probability), _or_one(basis.probability_bound))
        self._running[event.instance_id] = row, event.at_us + (event.lifetime_us or 0)


def _or_one(probability: float | None) -> float:
    """What is not known is certain to fail."""
    return 1.0 if probability is None else probability
