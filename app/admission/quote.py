"""What a decision reads from a published quantile table."""

from __future__ import annotations

from typing import Protocol


class Quotes(Protocol):
    """What a decision reads from a published quantile table."""

    @property
    def epoch(self) -> int:
        """The table's version."""

    @property
    def epoch_us(self) -> int:
        """The end of the history that the table was computed from."""

    @property
    def seq(self) -> int:
        """The last event of that history."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """The lifetime guaranteed at an eviction probability; None where the table has nothing on the flavor."""

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """The eviction probability of a lifetime, 1.0 where it cannot be certified; None as above."""

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """What the eviction probability of a lifetime is below, with this confidence; None where nothing is known."""
