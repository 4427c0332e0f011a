"""The order of a cloud's jobs: that of their submission."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

JobPlace = tuple[int, str]
"""The place of a job among all of its cloud: the time at which it was submitted, and its id."""
_MOST = 512
_last = itemgetter(-1)


class JobOrder:
    """The places of jobs, in blocks: where there are very many, to enter one or to let it go moves a few hundred."""

    def __init__(self) -> None:
        self._blocks: list[list[JobPlace]] = []

    def enter(self, place: JobPlace) -> None:
        """Enter a place that is not there."""
        blocks = self._blocks
        if not blocks:
            blocks.append([place])
            return
        at = min(bisect_left(blocks, place, key=_last), len(blocks) - 1)
        block = blocks[at]
        insort(block, place)
        if len(block) > _MOST:
            blocks[at : at + 1] = [block[: _MOST // 2], block[_MOST // 2 :]]

    def leave(self, place: JobPlace) -> None:
        """Let a place go that is there."""
        at = bisect_left(self._blocks, place, key=_last)
        block = self._blocks[at]
        del block[bisect_left(block, place)]
        if not block:
            del self._blocks[at]

    def after(self, place: JobPlace | None) -> Iterator[str]:
        """Yield the ids of the jobs after a place, which need not be there; of all if it is None."""
        first = 0 if place is None else bisect_right(self._blocks, place, key=_last)
        for at in range(first, len(self._blocks)):
            block = self._blocks[at]
            begin = 0 if place is None else bisect_right(block, place)
            for _, name in islice(block, begin, None):
                yield name

    def newest(self) -> Iterator[str]:
        """Yield the ids of the jobs, the newest first."""
        for block in reversed(self._blocks):
            for _, name in reversed(block):
                yield name
