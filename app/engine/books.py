"""The risk that the running spot instances of one promise still bear, by stratum of declared lifetime.

The risk recorded at a start is borne over the declared lifetime in equal parts, so an instance bears the share of it
that is left of its lifetime. Sums are of whole parts, so the order of the rows does not matter: two states of one log
decide alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.cluster import NO_NODE, Cluster, Ints
from app.engine.compiled import compiled
from app.engine.exposure import class_index

PARTS = 1 << 40
"""A risk of 1 has so many parts. As many instances as may run bear less than a whole number holds."""
NO_RISK = -1.0
"""The risk of an instance that stands in no book."""
RISKY = 0.5
"""From more than this share of the promise on, a running instance counts among the risky ones."""


@compiled
def borne(
    cluster: Cluster,
    promises: NDArray[np.float64],
    risks: NDArray[np.float64],
    lifetimes_us: Ints,
    boundaries_us: Ints,
    probabilities: NDArray[np.float64],
    now_us: int,
) -> tuple[Ints, Ints]:
    """Return the parts that are borne, and the number of risky instances, by promise and stratum (C, K + 1).

    promises, risks, lifetimes_us (S): as recorded at the start; boundaries_us (K): of the strata, rising;
    probabilities (C): the promises whose instances count, rising. Overrunning instances bear nothing.
    """
    parts = np.zeros((probabilities.shape[0], boundaries_us.shape[0] + 1), np.int64)
    risky = np.zeros_like(parts)
    for row in range(promises.shape[0]):
        if cluster.node_of[row] == NO_NODE or risks[row] < 0:
            continue
        of = class_index(probabilities, promises[row])
        if of < 0:
            continue
        left_us = cluster.deadline_us[row] - now_us
        if left_us <= 0:
            continue
        lifetime_us, stratum = lifetimes_us[row], 0
        while stratum < boundaries_us.shape[0] and boundaries_us[stratum] <= lifetime_us:
            stratum += 1
        risk = risks[row] * left_us / lifetime_us
        parts[of, stratum] += int(risk * PARTS)
        risky[of, stratum] += risk > RISKY * promises[row]
    return parts, risky
