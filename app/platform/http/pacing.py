"""The pace at which a process tells callers that they ask too often.

Most programs ask again as soon as they are refused. A refusal costs as much as a cheap answer, so hundreds of
connections that are refused at once would keep everybody else waiting.
"""

from __future__ import annotations

from time import monotonic

REFUSALS_PER_S = 100
_AT_ONCE = 50
_MOST_S = 10.0


class RefusalPace:
    """Tells refusals when to go: some at once, then one after the other."""

    def __init__(self) -> None:
        self._next = 0.0

    def delay_s(self) -> float:
        """Return the time that the next refusal waits."""
        now = monotonic()
        self._next = min(max(self._next + 1 / REFUSALS_PER_S, now - _AT_ONCE / REFUSALS_PER_S), now + _MOST_S)
        return max(0.0, self._next - now)
