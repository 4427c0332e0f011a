"""Work with a deadline on machines that come and go: in each step stay, move, wait, or go on demand.

A launch takes a changeover in which no work is done. Work that is done is kept. The *safety net* goes on demand at the
latest moment from which the deadline can still be kept, so every deadline is kept that on-demand machines alone could.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

NOWHERE, FIXED = -1, -2
"""Places beside the zones: no machine, and a machine on demand."""


class DeadlinePace(Enum):
    """The rule for a time without spot machines: wait for them, or keep up with the work's even share of the time."""

    SAFETY_NET = "safety_net"
    UNIFORM_PROGRESS = "uniform_progress"


@dataclass(frozen=True, slots=True)
class DeadlineState:
    """Hours: the work left, the time left, what is left of a changeover; the place; and what was used so far."""

    work_h: float
    left_h: float
    place: int = NOWHERE
    launching_h: float = 0.0
    spot_h: float = 0.0
    fixed_h: float = 0.0
    launches: int = 0

    @property
    def is_done(self) -> bool:
        """Tell if the work is done."""
        return self.work_h <= 1e-9


def next_place(
    state: DeadlineState,
    available: Sequence[int],
    whole: tuple[float, float],
    pace: DeadlinePace,
    step: tuple[float, float],
) -> int:
    """Return the place for the next step. `available` are the zones with machines, the best first.

    whole: the work and the time at the beginning; step: the lengths of a step and of a changeover; all in hours.
    """
    length_h, changeover_h = step
    if state.place in available:
        return state.place
    spare_h = state.left_h - state.work_h - changeover_h - length_h + 1e-9
    if spare_h < 0 or (state.place == FIXED and pace is DeadlinePace.SAFETY_NET):
        return FIXED
    if available and spare_h >= changeover_h:  # a machine can be lost when its changeover is nearly over
        return available[0]
    even_h = whole[0] * (1.0 - state.left_h / whole[1])
    is_behind = whole[0] - state.work_h < even_h - 1e-9
    return FIXED if pace is DeadlinePace.UNIFORM_PROGRESS and is_behind else NOWHERE


def step_to(state: DeadlineState, place: int, step: tuple[float, float]) -> DeadlineState:
    """Return the state after a step at a place; what is used ends with the work."""
    length_h, changeover_h = step
    if place == NOWHERE:
        return replace(state, place=place, launching_h=0.0, left_h=state.left_h - length_h)
    is_new = place != state.place
    launching_h = changeover_h if is_new else state.launching_h
    used_h = min(length_h, launching_h + state.work_h)
    return replace(
        state,
        place=place,
        work_h=state.work_h - max(used_h - launching_h, 0.0),
        left_h=state.left_h - used_h,
        launching_h=max(launching_h - used_h, 0.0),
        spot_h=state.spot_h + (used_h if place != FIXED else 0.0),
        fixed_h=state.fixed_h + (used_h if place == FIXED else 0.0),
        launches=state.launches + is_new,
    )
