"""Targets that move with outcomes, so that bids keep what they promise although the model errs.

Adaptive conformal inference on the logit: a miss raises the target by more than a success lowers it, in the ratio that
balances at the promised share.
"""

from __future__ import annotations

from math import exp, log

RATE = 0.25
LOWEST_SHIFT, HIGHEST_SHIFT = -2.0, 2.5


def moved_shift(shift: float, share: float, *, survived: bool) -> float:
    """Return the shift of a target after one more outcome; `share` is what was promised."""
    moved = shift + RATE * ((0.0 if survived else 1.0) - (1.0 - share))
    return min(max(moved, LOWEST_SHIFT), HIGHEST_SHIFT)


def target_of(share: float, shift: float) -> float:
    """Return the probability that a bid must have in the model to keep a share of survivors; share in (0, 1)."""
    return 1.0 / (1.0 + exp(-(log(share / (1.0 - share)) + shift)))
