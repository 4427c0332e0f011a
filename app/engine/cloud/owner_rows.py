"""The column of the owners of running instances, kept beside the rows of the compiled form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from app.engine.cloud.records import FIRST_ROWS, Running
from app.engine.cluster import NO_NODE, Cluster
from app.engine.owners import OwnerNumbers, overrunning_of

NOBODY = ""
"""Stands for the owner of instances whose start records none."""


class OwnerRows:
    """The numbers of owners by row. A number stands for a name in this process alone."""

    def __init__(self) -> None:
        self.owners: OwnerNumbers = np.zeros(FIRST_ROWS, np.int32)
        self._are_first = np.zeros(FIRST_ROWS, np.bool_)
        self._numbers = {NOBODY: 0}

    def enter(self, running: Running) -> None:
        """Enter an instance in its rows, which others may have had."""
        number = self._numbers.setdefault(running.owner or NOBODY, len(self._numbers))
        for row in running.rows:
            self.owners[row], self._are_first[row] = number, row == running.row

    def grow(self) -> None:
        """Double the number of rows."""
        self.owners = np.concatenate([self.owners, np.zeros_like(self.owners)])
        self._are_first = np.concatenate([self._are_first, np.zeros_like(self._are_first)])

    def number(self, owner: str) -> int:
        """Return the number of an owner; NO_NODE, which no row has, if nothing of it ever ran here."""
        return self._numbers.get(owner, NO_NODE)

    def overrunning_now(self, cluster: Cluster, now_us: int) -> Callable[[], dict[str, tuple[int, int, int]]]:
        """Return a function that counts what overruns by owner: instances, cores, core-microseconds; on any thread.

        `cluster` must not change meanwhile. Owners without any are left out.
        """
        names, owners, are_first = [*self._numbers], self.owners.copy(), self._are_first.copy()

        def count() -> dict[str, tuple[int, int, int]]:
            found = overrunning_of(cluster, owners, are_first, len(names), now_us).tolist()
            return {
                name: (over, cores, core_us) for name, (over, cores, core_us) in zip(names, found, strict=True) if over
            }

        return count
