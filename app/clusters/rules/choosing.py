"""Chooses when a job is checkpointed where there are no prices: by a notice, by hazard, or by Young's rule."""

from __future__ import annotations

from enum import StrEnum
from math import sqrt

from app.clusters.rules.saving import ASK_EVERY_S
from app.clusters.rules.writing import Predicted, fits

LOSS_EVERY_S = 90.0 * 86_400
"""A machine is assumed to be lost without a notice so often."""
LEASE_SPARE_S = 2.0
"""A checkpoint before the end of a lifetime begins so much earlier than it has to."""


class Timing(StrEnum):
    """The rule of regular checkpoints; `never`: only a notice, the end of a lifetime, or a person."""

    NEVER = "never"
    YOUNG = "young"
    HAZARD = "hazard"


def timing_of(policy: str, grace_s: float | None, predicted: Predicted, margin_s: float) -> Timing:
    """Return what times a job's checkpoints. grace_s: of its cloud's notices; None: on demand, so it is not evicted.

    By `auto`, a checkpoint that fits into the notice is taken at the notice. Others guard only against losses without
    one, which are rare.
    """
    if policy in {"none", "notice"}:
        return Timing.NEVER
    if policy == "young" or grace_s is None:
        return Timing.YOUNG
    is_safe = policy == "auto" and fits(predicted, grace_s, margin_s)
    return Timing.YOUNG if is_safe else Timing.HAZARD


def is_due_by_young(at_risk_s: float, pause_s: float, losses_per_s: float) -> bool:
    """Return True if the work since the last checkpoint reaches Young's interval before the next look."""
    return at_risk_s + ASK_EVERY_S > sqrt(2.0 * pause_s / losses_per_s)


def ends_before_next(left_s: float, predicted: Predicted, margin_s: float) -> bool:
    """Return True if a checkpoint has to begin now to be written before a lifetime ends."""
    return left_s > 0.0 and not fits(predicted, left_s - LEASE_SPARE_S, margin_s)
