"""The words of two clouds about one attempt to run a job away from home, and the times that both keep.

An *attempt* is numbered: 1, 2, 3, ... for each job. Its *origin* offers it to one *host*, which holds room for a while.
The origin awards it, and from then on offers the job to nobody else before the host has said that this attempt is over,
or until its *lease* has ended for sure. The lease is the longest time that the job may run: the host lets nothing of
the attempt run beyond its end, so neither side needs to hear of the other in between, and their clocks need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.times import SECOND_US

HOLD_MAX_US = 120 * SECOND_US
"""The longest time that a host may hold room for an offer."""
_CLOCK_SLACK = 1.03
"""Two clocks of which each goes wrong by 1 % differ by less than this factor."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The times of an attempt, in microseconds.

    `hold_us`: how long the host holds room for the offer; `runs_us`: the longest time from the award to the end, with
    transfers; `margin_us`: what an origin waits on top before it takes the job back.
    """

    hold_us: int
    runs_us: int
    margin_us: int

    def __post_init__(self) -> None:
        if not 0 < self.hold_us <= HOLD_MAX_US or self.runs_us <= 0 or self.margin_us < 0:
            raise ValueError(f"no terms of a lease: {self}")

    def ends_us(self, held_at_us: int) -> int:
        """Return when nothing of the attempt runs any more, on the host's clock, which held room at a time of it."""
        return held_at_us + self.hold_us + self.runs_us

    def reclaim_us(self, answered_at_us: int) -> int:
        """Return when the same is sure on the clock of the origin, which heard of the held room at a time of it."""
        return answered_at_us + self._lasts_us() + self.margin_us

    def held_until_us(self, reclaim_us: int) -> int:
        """Return until when the host may hold room, on the clock of the origin, which takes the attempt back then."""
        return reclaim_us - self.margin_us - self._lasts_us() + self.hold_us

    def _lasts_us(self) -> int:
        return round((self.hold_us + self.runs_us) * _CLOCK_SLACK)


class Wish(StrEnum):
    """The origin's message about an attempt. Each may come late, twice, or never."""

    OFFER = "offer"
    AWARD = "award"
    CANCEL = "cancel"
