"""The instances of one owner among the running ones. Rows (S) are those of the cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.books import CORE_HOUR_PARTS, PARTS, Bearers
from app.engine.cluster import GOES_FIRST_US, NO_NODE, Bools, Cluster, Ints
from app.engine.compiled import compiled
from app.engine.exposure import class_index

OwnerNumbers = NDArray[np.int32]
"""Of each row (S): the number of its instance's owner."""


@compiled
def overrunning_of(cluster: Cluster, owners: OwnerNumbers, are_first: Bools, count: int, now_us: int) -> Ints:
    """Return for each owner (count, 3) how many spot instances overrun, their cores, and core-microseconds so far.

    are_first (S): True for one row of each instance. What goes first has no lifetime to overrun.
    """
    found = np.zeros((count, 3), np.int64)
    for row in range(owners.shape[0]):
        if not cluster.is_spot[row]:
            continue
        over_us = 0 if cluster.deadline_us[row] == GOES_FIRST_US else now_us - cluster.deadline_us[row]
        if over_us > 0 and cluster.node_of[row] != NO_NODE:
            found[owners[row], 0] += are_first[row]
            found[owners[row], 1] += cluster.demand[row, 0]
            found[owners[row], 2] += cluster.demand[row, 0] * over_us
    return found


@compiled
def borne_by(
    bearers: Bearers,
    owners: OwnerNumbers,
    owner: int,
    deadlines_us: Ints,
    are_spot: Bools,
    probabilities: NDArray[np.float64],
    stratum: int,
    now_us: int,
    by_core_hours: bool,  # noqa: FBT001 - compiled functions take no keywords
) -> Ints:
    """Return the parts of the committed risk of a stratum's books that an owner's instances bear; see engine.books.

    deadlines_us, are_spot (S): as in the cluster; probabilities (C): the promises of the books, rising.
    """
    parts = np.zeros(probabilities.shape[0], np.int64)
    for row in range(owners.shape[0]):
        if are_spot[row] and owners[row] == owner and bearers.strata[row] == stratum:
            of, left_us = class_index(probabilities, bearers.promises[row]), deadlines_us[row] - now_us
            if of >= 0 and left_us > 0:
                weight = bearers.core_hours[row] * CORE_HOUR_PARTS if by_core_hours else float(PARTS)
                parts[of] += int(bearers.rates[row] * left_us * weight)
    return parts
