"""Rates: how often providers say that they take machines back. A rate is no survival: it says nothing of ages."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

BAND_CENTRES = (0.025, 0.075, 0.125, 0.175, 0.25)
"""The middles of AWS' bands: under 5 %, to 10, to 15, to 20, and above, which has no middle: a guess."""
_BAND_ENDS = (0.05, 0.1, 0.15, 0.2)


class RateKind(StrEnum):
    """The whole of which a share is told: the machines of a month, or all machines that stopped."""

    OF_A_MONTH = "of_a_month"
    OF_STOPS = "of_stops"


class RevokedBy(StrEnum):
    """The cause that ends machines of a venue: a price above the bid, as at Amazon until 2017, or lack of capacity."""

    PRICE = "price"
    CAPACITY = "capacity"


class ProviderRate(NamedTuple):
    """The share of machines that a provider took back, told at a time."""

    at_us: int
    kind: RateKind
    share: float


def band_of(share: float) -> int:
    """Return the number of the band that a share of machines taken back is in."""
    return sum(share >= end for end in _BAND_ENDS)
