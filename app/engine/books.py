"""The risk that the running spot instances of one promise still bear, by stratum of declared lifetime.

The risk recorded at a start is borne over the declared lifetime in equal parts, so an instance bears the share of it
that is left of its lifetime. Sums are of whole parts, so the order of the rows does not matter: two states of one log
decide alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import Ints
from app.engine.compiled import compiled
from app.engine.exposure import class_index

PARTS = 1 << 40
"""A risk of 1 has so many parts. As many instances as may run bear less than a whole number holds."""
RISKY = 0.5
"""From more than this share of the promise on, a running instance counts among the risky ones."""


class Bearers(NamedTuple):
    """Columns beside the rows (S) of a cluster.

    promises: of the running instances that stand in a book, 0 for all others; rates: the risk recorded at the start,
    for each microsecond of the declared lifetime; strata: the position of the lifetime's stratum.
    """

    promises: NDArray[np.float64]
    rates: NDArray[np.float64]
    strata: NDArray[np.int8]


@compiled
def borne(
    bearers: Bearers, deadlines_us: Ints, strata_count: int, probabilities: NDArray[np.float64], now_us: int
) -> tuple[Ints, Ints]:
    """Return the parts that are borne, and the number of risky instances, by promise (C) and stratum.

    deadlines_us (S): as in the cluster; probabilities (C): the promises, rising. Overrunning instances bear nothing.
    One pass over many rows decides the cost, so a row takes few comparisons and a product.
    """
    parts = np.zeros((probabilities.shape[0], strata_count), np.int64)
    risky = np.zeros_like(parts)
    for row in range(deadlines_us.shape[0]):
        of = class_index(probabilities, bearers.promises[row])
        if of >= 0:
            left_us = deadlines_us[row] - now_us
            if left_us > 0:
                risk = bearers.rates[row] * left_us
                parts[of, bearers.strata[row]] += int(risk * PARTS)
                risky[of, bearers.strata[row]] += risk > RISKY * probabilities[of]
    return parts, risky
