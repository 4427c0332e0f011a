"""The past that a host judges by: how often its native use rose by more than some room within some time.

Native use is the cores of a cloud's own jobs. A foreign job is preempted when native use rises by more than the room
that is left beside it. So each past *moment* (one every ten minutes) is asked: had the job come then, with the room
that it would have now, would the rise that followed have reached it?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import DAY_US, SECOND_US
from app.engine.cluster import Ints

CELL_US = 600 * SECOND_US
"""The time between two moments. What happens within it, after the moment at its begin, is a *cell*."""

_CELLS_A_DAY = DAY_US // CELL_US


class PathPart(NamedTuple):
    """A part of a job's time, from the cell `from_cell` to before `to_cell`, and the cores that are free all the while.

    Cells are counted from the job's start.
    """

    from_cell: int
    to_cell: int
    spare: int


class NativeUse:
    """The native use of a cloud from second 0 on: cores at each moment, and the highest in the cell after it."""

    def __init__(self) -> None:
        self._use = 0
        self._at_moments: list[int] = []
        self._peaks: list[int] = []

    @property
    def now(self) -> int:
        """The cores in use."""
        return self._use

    def record(self, at_us: int, use: int) -> None:
        """Take a change. Changes come in the order of their times; one at a moment belongs to the cell after it."""
        self._advance(at_us)
        self._use = use
        self._peaks[-1] = max(self._peaks[-1], use)

    def seen_until(self, at_us: int) -> tuple[Ints, Ints]:
        """Return the use at each moment up to a time that is not past, and the peak of each cell; the last is open."""
        self._advance(at_us)
        return np.array(self._at_moments, np.int64), np.array(self._peaks, np.int64)

    def _advance(self, at_us: int) -> None:
        missing = at_us // CELL_US + 1 - len(self._at_moments)
        self._at_moments += [self._use] * missing
        self._peaks += [self._use] * missing


def cells_of(length_us: int) -> int:
    """Return the number of cells that a length of time takes, the last one counted whole."""
    return -(-length_us // CELL_US)


def path_beside(spare: int, ends: Sequence[tuple[int, int]], length_us: int) -> list[PathPart]:
    """Return the parts of a job's time between the ends of the foreign jobs beside it.

    `spare`: the cores that are free once the job runs; `ends`: how long each other foreign job still runs, in
    microseconds, and its cores, which are free from then on.
    """
    found, begin, last = [], 0, cells_of(length_us)
    for left_us, cores in sorted(ends):
        end = min(cells_of(left_us), last)
        if end > begin:
            found.append(PathPart(begin, end, spare))
            begin = end
        if end < last:
            spare += cores
    return [*found, PathPart(begin, last, spare)] if begin < last else found


def share_of_all(use: Ints, peaks: Ints, part: PathPart) -> float:
    """Return the share of all moments from which the use rose by more than the spare cores; 1 without moments.

    A moment whose time to come is not over counts as one without the rise, as in EXFed.
    """
    if not len(use):
        return 1.0
    return float(np.mean(_rises(use, peaks, part, len(use)) > part.spare))


def share_alive(use: Ints, peaks: Ints, path: Sequence[PathPart], chosen: NDArray[np.bool_]) -> float:
    """Return the share of the chosen moments (N) whose job would have lived through its whole path; 0 without any.

    A moment counts in a part if all of the part is known, and if its job lived until then: the estimate of
    Kaplan and Meier, with parts as its times.
    """
    alive, share = chosen.copy(), 1.0
    for part in path:
        known = max(len(use) - part.to_cell, 0)
        alive[known:] = False
        if not alive.any():
            return 0.0
        risen = _rises(use[:known], peaks, part, known) > part.spare
        share *= 1.0 - float(np.mean(risen[alive[:known]]))
        alive[:known] &= ~risen
        if share == 0.0:
            break
    return share


def told_by_hour(use: Ints) -> float:
    """Return how much the time of day tells of the use: the share of its variance that is between times of day.

    From 0 to 1, over whole days, less what as many days would show by chance; 1 if fewer than two days are known.
    """
    days = len(use) // _CELLS_A_DAY
    if days < 2:
        return 1.0
    by_day = use[: days * _CELLS_A_DAY].reshape(days, _CELLS_A_DAY)
    variance = float(by_day.var())
    if not variance:
        return 0.0
    share = float(by_day.mean(axis=0).var()) / variance
    return max(0.0, (share - 1 / days) / (1 - 1 / days))


def _rises(use: Ints, peaks: Ints, part: PathPart, count: int) -> Ints:
    """Return, for the first moments, by how much the use rose at most in a part of what is known to follow."""
    return _highest(peaks, part.from_cell, part.to_cell, count) - use[:count]


def _highest(peaks: Ints, begin: int, end: int, count: int) -> Ints:
    """Return the highest of peaks[i + begin : i + end] for each i below `count`; 0 where none is known.

    By doubling: the highest of 2, 4, 8, ... cells, and two of these that overlap make any length.
    """
    found, width = np.concatenate([peaks[begin:], np.zeros(1, np.int64)]), 1
    while 2 * width <= end - begin and width < len(found):
        found[: len(found) - width] = np.maximum(found[: len(found) - width], found[width:])
        width *= 2
    later = np.minimum(np.arange(count) + (end - begin - width), len(found) - 1)
    first = np.minimum(np.arange(count), len(found) - 1)
    highest: Ints = np.maximum(found[first], found[later])
    return highest
