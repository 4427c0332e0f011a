"""The rate of data over a link: the one that nine of ten transfers reach, learned from what came.

A *link* is the way of data from one peer in one direction. What is measured is what this service pulled itself, up to
where it stood in the own store; nobody's word counts.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_TENTH = 10
_BYTES_OF_MBIT = 125_000
_SPARE = 3


class LinkSample(NamedTuple):
    """A transfer: the microseconds that it took, and those since it ended.

    `bytes`: its own times the number that shared the link when it began. So its rate is the one that an estimate then
    should have gone by, whatever came or ended beside it later.
    """

    bytes: int
    took_us: int
    age_us: int


def learned(samples: Sequence[LinkSample], active: int) -> LinkRate | None:
    """Return the lower 10 % quantile of the rates of the newest transfers that count; None: there are too few.

    If the next transfer is as they are, it reaches that rate with a probability of at least nine tenths, from nine on.
    """
    counted = [one for one in samples if one.bytes >= LEAST_SAMPLE_BYTES and one.age_us <= SAMPLES_US]
    newest = sorted(counted, key=lambda one: one.age_us)[:MOST_SAMPLES]
    if len(newest) < LEAST_SAMPLES:
        return None
    rates = sorted(max(one.bytes * SECOND_US // max(one.took_us, 1), 1) for one in newest)
    return LinkRate(rates[max((len(rates) + 1) // _TENTH, 1) - 1], len(newest), newest[0].age_us, active)


def told(mbit_s: float, active: int) -> LinkRate:
    """Return an operator's rate, in 10^6 bit/s, as the knowledge of a link."""
    return LinkRate(max(int(mbit_s * _BYTES_OF_MBIT), 1), 0, 0, active)


def takes_us(link: LinkRate, size: int) -> int:
    """Return the time that so many bytes take, if the link is shared evenly with what is under way."""
    return -(-size * (link.active + 1) * SECOND_US // link.bytes_per_s)


def stage_granted_us(asked_us: int, link: LinkRate | None, size: int) -> int | None:
    """Return the time that a host gives inputs to come: three times the estimate, and not more than was asked for.

    None: they would come too late. A link that is not known, or of which nothing was heard for an hour, is tried: then
    the time is the one that was asked for.
    """
    if link is None or not link.is_fresh:
        return asked_us
    expected_us = takes_us(link, size)
    return None if expected_us > asked_us else min(asked_us, max(_SPARE * expected_us, LEAST_STAGE_US))
