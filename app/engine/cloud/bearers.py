"""The columns of what running spot instances bear, kept beside the rows of the compiled form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from app.domain.strata import BOUNDARIES_US, stratum_index
from app.engine.books import PARTS, Bearers, borne
from app.engine.cloud.records import FIRST_ROWS, Running
from app.engine.cluster import Ints
from app.engine.owners import OwnerNumbers, borne_by


class BearerColumns:
    """The columns of `Bearers`, and the declared lifetimes from which strata are found anew when they change."""

    def __init__(self) -> None:
        self._boundaries_us: tuple[int, ...] = BOUNDARIES_US
        self._lifetimes_us = np.zeros(FIRST_ROWS, np.int64)
        self._columns = Bearers(np.zeros(FIRST_ROWS), np.zeros(FIRST_ROWS), np.zeros(FIRST_ROWS, np.int8))

    def enter(self, running: Running) -> None:
        """Enter an instance in its row, which another one may have had."""
        row, lifetime_us = running.row, running.book_lifetime_us
        is_booked = running.risk is not None and running.probability is not None
        self._columns.promises[row] = running.probability if is_booked else 0.0
        self._columns.rates[row] = (running.risk or 0.0) / max(lifetime_us, 1)
        self._columns.strata[row] = stratum_index(lifetime_us, self._boundaries_us)
        self._lifetimes_us[row] = lifetime_us

    def leave(self, row: int) -> None:
        """Empty the row."""
        self._columns.promises[row] = 0.0

    def grow(self) -> None:
        """Double the number of rows."""
        self._columns = Bearers(*(np.concatenate([one, np.zeros_like(one)]) for one in self._columns))
        self._lifetimes_us = np.concatenate([self._lifetimes_us, np.zeros_like(self._lifetimes_us)])

    def borne(
        self, deadlines_us: Ints, probabilities: NDArray[np.float64], boundaries_us: tuple[int, ...], now_us: int
    ) -> tuple[Ints, Ints]:
        """Return what engine.books computes for the running instances with these promises."""
        self._follow(boundaries_us)
        return borne(self._columns, deadlines_us, len(boundaries_us) + 1, probabilities, now_us)

    def borne_now(
        self, deadlines_us: Ints, probabilities: NDArray[np.float64], boundaries_us: tuple[int, ...], now_us: int
    ) -> Callable[[], tuple[Ints, Ints]]:
        """Return a function that returns the same as things are now, on any thread."""
        self._follow(boundaries_us)
        columns, deadlines_us = Bearers._make(one.copy() for one in self._columns), deadlines_us.copy()
        return lambda: borne(columns, deadlines_us, len(boundaries_us) + 1, probabilities, now_us)

    def borne_by(
        self, deadlines_us: Ints, owners: OwnerNumbers, owner: int, probability: float, stratum: int, now_us: int
    ) -> float:
        """Return the risk that an owner's running instances with this promise bear in a stratum of `borne`."""
        return borne_by(self._columns, owners, owner, deadlines_us, probability, stratum, now_us) / PARTS

    def _follow(self, boundaries_us: tuple[int, ...]) -> None:
        if boundaries_us != self._boundaries_us:
            self._boundaries_us = boundaries_us
            self._columns.strata[:] = np.searchsorted(boundaries_us, self._lifetimes_us, side="right")
