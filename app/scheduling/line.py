"""The line of submissions that wait for one cloud's log.

A long submission, such as a batch of a thousand operations, would keep whoever comes after it waiting for as long as
it takes. So short and long ones take turns, and one that has had its time goes back to the end. One step that may start
very many instances, a job, is long too. Steps that bring their times keep their place, because a cloud's time does not
run backwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from app.admission.outcomes import Change
from app.scheduling.submissions import Submission

MOST_SHORT = 32
"""A submission with more steps to decide, or with more instances to start in one of them, is long."""


class WaitingLine:
    """Submissions in the order in which they are taken. `count`: the number of their steps that are undecided."""

    def __init__(self) -> None:
        self._short: deque[Submission] = deque()
        self._long: deque[Submission] = deque()
        self._is_long_next = False
        self.count = 0

    def __bool__(self) -> bool:
        """Return True if somebody waits."""
        return bool(self._short or self._long)

    def add(self, one: Submission) -> None:
        """Put a submission at the end."""
        (self._long if _gives_way(one) else self._short).append(one)
        self.count += one.left

    def add_first(self, submissions: Sequence[Submission]) -> None:
        """Put submissions at the head, in their order."""
        self._short.extendleft(reversed(submissions))
        self.count += sum(one.left for one in submissions)

    def put_back(self, submissions: Iterable[Submission]) -> None:
        """Put back what is left when the time is over: what was begun or is long at the end, others at the head."""
        rest = [*submissions]
        self.add_first([one for one in rest if not _goes_behind(one)])
        for one in filter(_goes_behind, rest):
            self.add(one)

    def take(self, most: int) -> list[Submission]:
        """Take the next submissions, all short or all long, until they have so many steps or none of these waits."""
        line = (self._long or self._short) if self._is_long_next else (self._short or self._long)
        self._is_long_next = line is self._short
        taken: list[Submission] = []
        count = 0
        while line and count < most:
            taken.append(line.popleft())
            count += taken[-1].left
        self.count -= count
        return taken


def _goes_behind(one: Submission) -> bool:
    return _gives_way(one) or (bool(one.outcomes) and one.steps[0].at_us is None)


def _gives_way(one: Submission) -> bool:
    is_long = one.left > MOST_SHORT or any(len(step.starts) > MOST_SHORT for step in one.steps if type(step) is Change)
    return is_long and one.steps[0].at_us is None
