"""Targets that move with outcomes, so that bids keep what they promise although the model errs; costs likewise.

Adaptive conformal inference on the logit: a miss raises the target by more than a success lowers it, in the ratio that
balances at the promised share.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

RATE = 0.25
LOWEST_SHIFT, HIGHEST_SHIFT = -2.0, 2.5
_MOST_EXPONENT = 700.0
"""The most that `exp` takes without an overflow: shares that are smaller have the same target, which is nearly 0."""


def moved_shift(shift: float, share: float, *, survived: bool) -> float:
    """Return the shift of a target after one more outcome; `share` is what was promised."""
    moved = shift + RATE * ((0.0 if survived else 1.0) - (1.0 - share))
    return min(max(moved, LOWEST_SHIFT), HIGHEST_SHIFT)


def target_of(share: float, shift: float) -> float:
    """Return the probability that a bid must have in the model to keep a share of survivors; share in (0, 1)."""
    return 1.0 / (1.0 + exp(min(-(log(share / (1.0 - share)) + shift), _MOST_EXPONENT)))


KEPT_OF_RATIO = 0.995
LEAST_RATIO, MOST_RATIO = 0.8, 2.0


@dataclass(slots=True)
class RunningRatio:
    """The ratio of what was paid to what was said of it, where each outcome counts .995 times as much as the next.

    What is chosen for its low estimate is dearer than its estimate in the mean, so estimates are multiplied by this.
    """

    paid: float = 0.0
    said: float = 0.0

    def note(self, paid: float, said: float) -> None:
        """Add an outcome, both in dollars."""
        self.paid = KEPT_OF_RATIO * self.paid + paid
        self.said = KEPT_OF_RATIO * self.said + said

    @property
    def value(self) -> float:
        """Return the ratio, kept between .8 and 2; 1 before anything was said."""
        return min(max(self.paid / self.said, LEAST_RATIO), MOST_RATIO) if self.said > 0.0 else 1.0
