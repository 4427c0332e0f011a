"""The calibrated forecast of one start, read like a quantile table."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.outlook import Outlook
from app.forecast.bound import upper_bound
from app.forecast.calibrated import eviction_probability, longest_lifetime, window_count
from app.forecast.rise import Rises


@dataclass(frozen=True, slots=True)
class Foreseen:
    """An epoch's rise curves, as a start with this outlook reads them.

    The flavor and its slots are part of the outlook, so the arguments of that name only make it readable like a table.
    """

    epoch: int
    epoch_us: int
    seq: int
    rises: Rises
    outlook: Outlook

    def lifetime_us(self, _flavor: str, _slots: int, probability: float) -> int:
        """Return the shortest lifetime whose eviction probability exceeds this one; shorter ones are within it."""
        return int(longest_lifetime(self.rises, self.outlook, probability))

    def probability(self, _flavor: str, _slots: int, lifetime_us: int) -> float:
        """Return the eviction probability of a lifetime."""
        return float(eviction_probability(self.rises, self.outlook, lifetime_us))

    def bound(self, _flavor: str, _slots: int, lifetime_us: int, confidence: float) -> float:
        """Return an upper bound of a lifetime's eviction probability, from the windows that the history holds."""
        windows = window_count(self.rises.seen_us, lifetime_us)
        return upper_bound(self.probability("", 0, lifetime_us), windows, confidence)
