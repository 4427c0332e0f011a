"""The columns that say in which sections running instances stand, kept beside the rows of the compiled form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.strata import BOUNDARIES_US, STRATA, stratum_index
from app.domain.weeks import week_of
from app.engine.cloud.records import FIRST_ROWS, Running, Section, SectionKind
from app.engine.cluster import Bools


class _SectionsOfRows(NamedTuple):
    strata: NDArray[np.int8]
    flavors: NDArray[np.int16]
    weeks: NDArray[np.int32]


class SectionColumns:
    """The stratum, the flavor (its place in `_flavors`) and the week of each row."""

    def __init__(self) -> None:
        self._columns = _SectionsOfRows(
            np.zeros(FIRST_ROWS, np.int8), np.zeros(FIRST_ROWS, np.int16), np.zeros(FIRST_ROWS, np.int32)
        )
        self._flavors: dict[str, int] = {}

    def enter(self, running: Running) -> None:
        """Enter an instance in its row, which another one may have had."""
        row, (strata, flavors, weeks) = running.row, self._columns
        strata[row] = stratum_index(running.lifetime_us or 0, BOUNDARIES_US)
        flavors[row] = self._flavors.setdefault(running.flavor, len(self._flavors))
        weeks[row] = week_of(running.started_us)

    def grow(self) -> None:
        """Double the number of rows."""
        self._columns = _SectionsOfRows(*(np.concatenate([one, np.zeros_like(one)]) for one in self._columns))

    def counts(self, are_meant: Bools, promises: NDArray[np.float64]) -> Callable[[], dict[Section, int]]:
        """Return a function that counts the rows that are meant and have a promise, by section, on any thread."""
        rows = np.flatnonzero(are_meant & (promises > 0))
        strata, of_flavors, weeks = (column[rows] for column in self._columns)
        promised, flavors = promises[rows], [*self._flavors]

        def found() -> dict[Section, int]:
            sums = {
                Section(SectionKind.STRATUM, STRATA[stratum], stratum, probability): count
                for probability in np.unique(promised).tolist()
                for stratum, count in _tally(strata[promised == probability])
            }
            sums |= {Section(SectionKind.FLAVOR, flavors[flavor]): count for flavor, count in _tally(of_flavors)}
            return sums | {Section(SectionKind.WEEK, "", week): count for week, count in _tally(weeks)}

        return found


def _tally(values: NDArray[np.signedinteger]) -> list[tuple[int, int]]:
    seen, counts = np.unique(values, return_counts=True)
    return list(zip(seen.tolist(), counts.tolist(), strict=True))
