"""The interface through which decisions read a published quantile table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from app.domain.values import Forecast, Guarantee
from app.engine.cloud import Cloud
from app.engine.outlook import Outlook


class Quotes(Protocol):
    """A published quantile table as decisions read it."""

    @property
    def epoch(self) -> int:
        """The table's version."""

    @property
    def epoch_us(self) -> int:
        """The end of the history that the table was computed from."""

    @property
    def seq(self) -> int:
        """The position of the last event of that history."""

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        """Return the lifetime guaranteed at an eviction probability; None if the table has nothing on the flavor."""

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """Return a lifetime's eviction probability: 1.0 if it cannot be certified, None if the flavor is unknown."""

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        """Return the upper bound of a lifetime's eviction probability at this confidence; None if nothing is known."""

    def windows(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        """Return the windows that the estimate of a lifetime rests on; None if the table has nothing on the flavor."""

    def lifetime_of_windows(self, flavor: str, slots: int, count: int) -> int:
        """Return the longest lifetime whose estimate rests on at least so many windows; 0 if there is none."""

    def seen_from(self, outlooks: Mapping[str, Outlook]) -> Quotes:
        """Return the calibrated forecast of starts with these outlooks, by flavor."""


def quotes_in_force(quotes: Quotes, cloud: Cloud, flavors: Iterable[str], at_us: int) -> Quotes:
    """Return a table's quotes for starts of these flavors now, by the forecast that the cloud's policy names."""
    if cloud.policy.forecast is Forecast.REPLAY:
        return quotes
    return quotes.seen_from({flavor: cloud.outlook(flavor, at_us) for flavor in flavors})


def slots_now(cloud: Cloud, flavor: str, at_us: int) -> int:
    """Return the available slots of a flavor: the outlook's, where the forecast reads that anyway."""
    if cloud.policy.forecast is Forecast.REPLAY or cloud.policy.guarantee is Guarantee.NONE:
        return cloud.available_slots(flavor)
    return cloud.outlook(flavor, at_us).slots


def quotes_of_now(quotes: Quotes, cloud: Cloud, flavors: Iterable[str], at_us: int) -> Callable[[], Quotes]:
    """Return a function that returns what `quotes_in_force` would return now, later and on any thread."""
    if cloud.policy.forecast is Forecast.REPLAY:
        return lambda: quotes
    outlooks = cloud.outlooks_now(flavors, at_us)
    return lambda: quotes.seen_from(outlooks())
