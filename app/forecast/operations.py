"""The operations of a recorded history, as columns that compiled functions read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import Ints

START_ON_DEMAND = 0
START_SPOT = 1
END = 2
EXTENDED = 3
MOVED = 4
NODE_ADDED = 5
NODE_OPENED = 6
NODE_DRAINED = 7
NODE_REMOVED = 8
NODE_RESIZED = 9
VIRTUAL = 0
"""The row that every replay reserves for its virtual instance. The history's rows come after it."""

NO_SIZE = 0
"""The index of the size that is nothing of any resource."""
ShortInts = NDArray[np.int32]


class Operations(NamedTuple):
    """K operations in order, as columns; 45 bytes each.

    at_us; kind; target: the instance's row or the node's index; born: start order in even numbers, one for the members
    of a group, so that a virtual instance fits between two starts; deadline_us: end of the declared lifetime, of an
    extension the new one, or GOES_FIRST_US; node: the node in the log, of a move the new one, or NO_NODE, and of a node
    that is resized the index in `sizes` of its former capacity; ended_us: when the log's instance stopped or was
    evicted, or NEVER_US; size: index in `sizes` of the instance's demand or the node's capacity. sizes (Z, R): the
    distinct ones.
    """

    at_us: Ints
    kind: NDArray[np.int8]
    target: ShortInts
    born: Ints
    deadline_us: Ints
    node: ShortInts
    ended_us: Ints
    size: ShortInts
    sizes: Ints

    def part(self, first: int, end: int | None = None) -> Operations:
        """Return these operations alone, as views."""
        return Operations._make([*(column[first:end] for column in self[:-1]), self.sizes])

    def counting_only(self, resources: list[int]) -> Operations:
        """Return the operations with only these resource dimensions."""
        return self._replace(sizes=np.ascontiguousarray(self.sizes[:, resources]))


REJECTED, EVICTED, DRILLED = 0, 1, 2


class Omitted(NamedTuple):
    """Rejected spot starts and evictions, which the log tells and a replay leaves out. M of them in order, as columns.

    before: how many operations precede it; kind: REJECTED, EVICTED, or DRILLED for an eviction as a drill; at_us; row:
    the evicted instance's; lifetime_us: the declared one of a rejected start; size: as in `Operations`.
    """

    before: Ints
    kind: Ints
    at_us: Ints
    row: Ints
    lifetime_us: Ints
    size: Ints
