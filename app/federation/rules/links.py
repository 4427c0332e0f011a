"""The rate of data over a link: one that nine of ten transfers reach that begin alone, learned from what came.

A *link* is the way of data from one peer in one direction. What is measured is what this service pulled itself, up to
where it stood in the own store; nobody's word counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb
from typing import NamedTuple

from app.domain.jobs import LinkRate
from app.domain.times import DAY_US, SECOND_US
from app.federation.rules.data import LEAST_STAGE_US

LEAST_SAMPLE_BYTES = 4 * 2**20
"""Smaller transfers tell of the way to the store more than of the rate."""
MOST_SAMPLES = 200
"""The newest transfers of a link that count."""
SAMPLES_US = 7 * DAY_US
"""The time for which a transfer counts."""
LEAST_SAMPLES = 5
LINK_SLOW = "link_slow"
"""The reason of a host that the inputs would not come in the time that the origin gives them."""
_ALONE = 2
"""So many are reckoned to share a link on which a transfer begins alone: one more comes more often than it does not."""
_MISSES = 0.1
"""The share of transfers that need not reach the rate, and the chance that more than these do not."""
_BYTES_OF_MBIT = 125_000
_SPARE = 3


class LinkSample(NamedTuple):
    """A transfer: the microseconds that it took, and those since it ended.

    `bytes`: as many as it would have brought if it had begun alone (`alone`). So its rate is the one that an estimate
    should have gone by when it began, whatever came or ended beside it later.
    """

    bytes: int
    took_us: int
    age_us: int


def learned(samples: Sequence[LinkSample], active: int) -> LinkRate | None:
    """Return a rate that nine of ten transfers reach, from the newest that count; None: there are too few.

    It is the largest of their rates of which that can be said with a confidence of nine tenths, whatever the rates'
    distribution; with fewer than 22 the least of them.
    """
    counted = [one for one in samples if one.bytes >= LEAST_SAMPLE_BYTES and one.age_us <= SAMPLES_US]
    newest = sorted(counted, key=lambda one: one.age_us)[:MOST_SAMPLES]
    if len(newest) < LEAST_SAMPLES:
        return None
    rates = sorted(max(one.bytes * SECOND_US // max(one.took_us, 1), 1) for one in newest)
    return LinkRate(rates[_place(len(rates)) - 1], len(newest), newest[0].age_us, active)


@cache
def _place(count: int) -> int:
    """Return the place, from 1 on, of that rate among so many, in rising order.

    Of independent rates fewer than `place` lie below the true 10 % quantile with a chance of at most a tenth. Source:
    Wilks, Determination of sample sizes for setting tolerance limits, 1941.
    """
    place, below = 0, 0.0
    while below <= _MISSES:
        below += comb(count, place) * _MISSES**place * (1 - _MISSES) ** (count - place)
        place += 1
    return max(place - 1, 1)


def told(mbit_s: float, active: int) -> LinkRate:
    """Return an operator's rate, in 10^6 bit/s, as the knowledge of a link."""
    return LinkRate(max(int(mbit_s * _BYTES_OF_MBIT), 1), 0, 0, active)


def takes_us(link: LinkRate, size: int) -> int:
    """Return the time that so many bytes take beside what is under way.

    A learned rate is that of a transfer that begins alone; an operator tells that of the link, which is shared evenly.
    """
    if link.samples:
        return shared_us(link, size, link.active + 1)
    return -(-size * (link.active + 1) * SECOND_US // link.bytes_per_s)


def shared_us(link: LinkRate, size: int, sharing: int) -> int:
    """Return the time that so many bytes take by a learned rate if so many transfers are there, these included."""
    return -(-size * (sharing + 1) * SECOND_US // (_ALONE * link.bytes_per_s))


def alone(size: int, sharing: int) -> int:
    """Return how many bytes a transfer would have brought alone that brought so many, and began as one of so many."""
    return size * (sharing + 1) // _ALONE


def stage_granted_us(asked_us: int, link: LinkRate | None, size: int) -> int | None:
    """Return the time that a host gives inputs to come: three times the estimate, and not more than was asked for.

    None: they would come too late. A link that is not known, or of which nothing was heard for an hour, is tried: then
    the time is the one that was asked for.
    """
    if link is None or not link.is_fresh:
        return asked_us
    expected_us = takes_us(link, size)
    return None if expected_us > asked_us else min(asked_us, max(_SPARE * expected_us, LEAST_STAGE_US))
