"""The times of the looks at an instance that wants a longer lifetime than it was promised (engine.cloud.wants)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.times import SECOND_US
from app.domain.wanted import Wanted

MINUTE_US = 60 * SECOND_US
LEAD_US = 10 * MINUTE_US
"""An owner is told at least so long before a promise ends, or by the grace period if that is longer."""
_NEVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Want:
    """A running spot instance that wants more than it was promised. `is_told`: its owner knows when the promise ends.

    `promised_us` is the time of its last promise, `deadline_us` the end of it.
    """

    instance_id: str
    started_us: int
    wanted: Wanted
    promised_us: int
    deadline_us: int
    is_told: bool = False

    @property
    def first_look_us(self) -> int:
        """The time when half of what its last promise left is over."""
        return self.deadline_us - (self.deadline_us - self.promised_us) // 2

    def last_look_us(self, grace_us: int) -> int:
        """Return the time when it is looked at for the last time, at least the lead before the promise ends."""
        last_us = self.deadline_us - max(LEAD_US, grace_us) - MINUTE_US
        return max(last_us - last_us % MINUTE_US, self.promised_us)

    def next_look_us(self, grace_us: int, after_us: int) -> int:
        """Return the time of the first look after a time. The last look is never over before the owner is told."""
        if self.is_told:
            return _NEVER_US
        last_us, left_us = self.last_look_us(grace_us), (self.deadline_us - self.promised_us) // 2
        while (at_us := _whole(self.deadline_us - left_us)) < last_us:
            if at_us > after_us:
                return at_us
            left_us //= 2
        return last_us


def looks_due(wants: Iterable[Want], grace_us: int, after_us: int, until_us: int) -> list[tuple[int, Want]]:
    """Return who of these is looked at after a time and until another, each with the time of the look, in their order.

    Who should have been told before is among them.
    """
    begun = (one for one in wants if one.first_look_us <= until_us or one.last_look_us(grace_us) <= until_us)
    looks = ((want.next_look_us(grace_us, after_us), want) for want in begun)
    return sorted((one for one in looks if one[0] <= until_us), key=lambda one: (one[0], one[1].instance_id))


def _whole(at_us: int) -> int:
    """Return the next whole minute."""
    return -(-at_us // MINUTE_US) * MINUTE_US
