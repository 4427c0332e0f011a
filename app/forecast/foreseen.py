"""The calibrated forecast of a moment, read like a quantile table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.outlook import Outlook, with_slots
from app.forecast.bound import upper_bound
from app.forecast.calibrated import SHORTEST_WINDOW_US, eviction_probability, longest_lifetime, window_count
from app.forecast.design import bound_of_windows
from app.forecast.level import stratum_index
from app.forecast.rise import Rises


@dataclass(frozen=True, slots=True)
class Foreseen:
    """An epoch's rise curves, as starts with these outlooks read them, by flavor.

    Everything is None for other flavors, or if the table holds no curves. For another number of slots than the
    outlook's the room is taken as so many instances larger or smaller.
    """

    epoch: int
    epoch_us: int
    seq: int
    rises: Rises | None
    outlooks: Mapping[str, Outlook]

    def seen_from(self, outlooks: Mapping[str, Outlook]) -> Foreseen:
        """Return the same forecast for other outlooks."""
        return Foreseen(self.epoch, self.epoch_us, self.seq, self.rises, outlooks)

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """Return the shortest lifetime whose eviction probability exceeds this one; shorter ones are within it."""
        if self.rises is None or flavor not in self.outlooks:
            return None
        return int(longest_lifetime(self.rises, with_slots(self.outlooks[flavor], slots), probability))

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """Return the eviction probability of a lifetime."""
        if self.rises is None or flavor not in self.outlooks:
            return None
        return float(eviction_probability(self.rises, with_slots(self.outlooks[flavor], slots), lifetime_us))

    def windows(self, flavor: str, slots: int, lifetime_us: int) -> float | None:  # noqa: ARG002 - as other tables
        """Return the windows of a lifetime in the history: all of it is evidence for any number of slots."""
        if self.rises is None or flavor not in self.outlooks:
            return None
        return float(window_count(self.rises.seen_us, lifetime_us))

    def lifetime_of_windows(self, flavor: str, slots: int, count: int) -> int:  # noqa: ARG002 - as above
        """Return the longest lifetime of which the history holds so many windows; 0 if there is none."""
        if self.rises is None or flavor not in self.outlooks:
            return 0
        longest_us = self.rises.seen_us // max(count, 1)
        return longest_us if longest_us >= SHORTEST_WINDOW_US else 0

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """Return an upper bound of a lifetime's eviction probability, from the windows that the history is worth."""
        estimate = self.probability(flavor, slots, lifetime_us)
        if self.rises is None or estimate is None:
            return None
        windows, effect = window_count(self.rises.seen_us, lifetime_us), self.rises.effects[stratum_index(lifetime_us)]
        if not effect:
            return upper_bound(estimate, windows, confidence)
        return float(bound_of_windows(estimate, windows / effect, confidence))
