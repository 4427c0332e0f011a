"""Honest within strata: the promise holds for short and for long instances alike. Pure; no decision reads it yet.

Each stratum of declared lifetimes has a *book* of its own for each promised probability p. A start earns at most what
it risks four times over, so nothing is earned without risk. A start is admitted by the first of three lines that allows
it: its risk is small; its risk is within p and few such instances run; or a tenth of what the book has left pays for
it, at a risk of 5 p at most. Exposed starts are paid for like any other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from math import floor
from typing import NamedTuple

from app.domain.events import Event, InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.strata import stratum_of
from app.domain.values import EvictionReason, Market

EARNING = 4.0
"""An admission earns its risk so many times, and p at most."""
SPREAD = 10.0
"""One start may use the tenth part of what is left."""
HIGHEST = 5.0
"""No start is admitted whose risk is above so many p."""
RISKY = 0.5
"""From this share of p on, a running instance counts among the risky ones."""
RISKY_WITHIN = 5
RISKY_BEYOND = 2
"""So many risky instances may run beside a start within p, and beside one beyond it, whatever the book has left."""


class AdmittedBy(StrEnum):
    """The line that admits a start."""

    SMALL = "small"
    WITHIN = "within"
    PAID = "paid"


class BookStanding(NamedTuple):
    """A book at a moment. `left`: earned less evicted; `committed`: risks of those running, by their time left;
    `risky`: how many of these risk more than half of p."""

    left: float
    committed: float
    risky: int


class _Charge(NamedTuple):
    risk: float
    lifetime_us: int
    deadline_us: int

    def left_at(self, now_us: int) -> float:
        """Return the risk of the rest of the declared lifetime."""
        return self.risk * max(self.deadline_us - now_us, 0) / self.lifetime_us if self.lifetime_us else 0.0


@dataclass(slots=True)
class _Book:
    earned: float = 0.0
    evicted: int = 0
    running: dict[str, _Charge] = field(default_factory=dict)


class Books:
    """The books of a cloud, folded from its events: a start's risk and promise are those of its basis."""

    def __init__(self) -> None:
        self._books: dict[tuple[float, str], _Book] = defaultdict(_Book)
        self._of: dict[str, _Book] = {}

    def fold(self, event: Event) -> None:
        """Take the next event of the log."""
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            self._start(event)
        elif isinstance(event, InstanceStopped | InstanceEvicted) and event.instance_id in self._of:
            book = self._of.pop(event.instance_id)
            charge = book.running.pop(event.instance_id)
            if isinstance(event, InstanceEvicted) and event.reason is not EvictionReason.DRILL:
                book.evicted += event.at_us <= charge.deadline_us

    def standing(self, probability: float, lifetime_us: int, now_us: int) -> BookStanding:
        """Return the standing of the book that a start would be entered in."""
        book = self._books[probability, stratum_of(lifetime_us)]
        charges = [one.left_at(now_us) for one in book.running.values()]
        risky = sum(charge > RISKY * probability for charge in charges)
        return BookStanding(book.earned - book.evicted, sum(charges), risky)

    def _start(self, event: InstanceStarted) -> None:
        basis, lifetime_us = event.basis, event.lifetime_us or 0
        if basis is None or basis.probability is None or basis.estimated_probability is None:
            return
        book = self._books[basis.probability, stratum_of(lifetime_us)]
        book.earned += min(basis.probability, EARNING * basis.estimated_probability)
        book.running[event.instance_id] = _Charge(basis.estimated_probability, lifetime_us, event.at_us + lifetime_us)
        self._of[event.instance_id] = book


def admitting_line(standing: BookStanding, risk: float, probability: float) -> AdmittedBy | None:
    """Return the line that admits a start of this risk under the promise `probability`; None if it is refused.

    A book in debt bears half the risk.
    """
    bearable = probability / 2 if standing.left < 0 else probability
    affordable = max(floor(standing.left), 0)
    if risk <= min(bearable, RISKY * probability):
        return AdmittedBy.SMALL
    if risk <= bearable and standing.risky + 1 <= max(RISKY_WITHIN, affordable):
        return AdmittedBy.WITHIN
    most = min(HIGHEST * probability, (standing.left - standing.committed) / SPREAD)
    if risk <= most and standing.risky + 1 <= max(RISKY_BEYOND, affordable):
        return AdmittedBy.PAID
    return None
