"""Pauses before something that ended is started again."""

from __future__ import annotations

_FIRST_S = 1.0
_LONGEST_S = 60.0
_STEADY_S = 10.0


class Pauses:
    """Pauses of 1, 2, 4 and at most 60 seconds, from the beginning again after what lasted for over 10 seconds."""

    def __init__(self) -> None:
        self._next_s = _FIRST_S

    def after(self, lasted_s: float) -> float:
        """Return the pause after something that lasted so long, in seconds."""
        pause_s = _FIRST_S if lasted_s > _STEADY_S else self._next_s
        self._next_s = min(2 * pause_s, _LONGEST_S)
        return pause_s
