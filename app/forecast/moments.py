"""The moments of a history at which virtual instances are injected.

A short history gets an injection in every gap, so its moments can be drawn anew for each epoch. A long one forks
worlds only at its moments. An epoch that continues the last one needs moments that coincide with the last one's: every
possible moment has a rank, drawn once, and an epoch takes the moments of the lowest ranks. As the history grows,
moments in its old part only become fewer.
"""

from __future__ import annotations

import numpy as np

from app.engine.cluster import Ints

_MARGIN = 8.0
"""The standard deviations by which more moments are drawn than are likely to be needed."""


def independent_moments(key: list[int], start_us: int, until_us: int, count: int) -> Ints:
    """Return `count` moments, uniform over [start, until). The same key always gives the same moments."""
    generator = np.random.default_rng(key)
    return generator.integers(start_us, until_us, count)


def nested_moments(key: list[int], start_us: int, until_us: int, count: int, highest_rate: float) -> Ints:
    """Return the moments of lowest rank in [start, until): at most `count`, and about `highest_rate` a microsecond.

    They contain those of a longer history before `until_us`, if its count and rate are not higher.
    Ranks are a Poisson process: up to rank x there are x moments a microsecond on average. It is drawn in stretches
    [start + 2^n, start + 2^(n + 1)), the first one from the start on, each by rising rank, so no drawing depends on
    another.
    """
    span_us, needed = until_us - start_us, count
    while True:
        rank = min(highest_rate, (needed + _MARGIN * (needed + 1) ** 0.5) / span_us)
        drawn = [_stretch(key, n, rank) for n in range(max(span_us - 1, 1).bit_length())]
        offsets, ranks = np.concatenate([d[0] for d in drawn]), np.concatenate([d[1] for d in drawn])
        inside = offsets < span_us
        if rank == highest_rate or np.count_nonzero(inside) >= count:
            lowest = np.argsort(ranks[inside], kind="stable")[:count]
            return np.sort(start_us + offsets[inside][lowest])
        needed *= 2


def _stretch(key: list[int], n: int, highest_rank: float) -> tuple[Ints, np.ndarray]:
    """Return the offsets and ranks of a stretch's moments up to a rank."""
    begin, length = (0, 2) if n == 0 else (1 << n, 1 << n)
    generator = np.random.default_rng([*key, n])
    mean = highest_rank * length
    pairs = generator.random((int(mean + _MARGIN * (mean + 1) ** 0.5), 2))
    ranks = np.cumsum(-np.log1p(-pairs[:, 0])) / length
    while ranks[-1] <= highest_rank:
        pairs = np.concatenate([pairs, generator.random((len(pairs), 2))])
        ranks = np.cumsum(-np.log1p(-pairs[:, 0])) / length
    below = ranks <= highest_rank
    return begin + (pairs[below, 1] * length).astype(np.int64), ranks[below]
