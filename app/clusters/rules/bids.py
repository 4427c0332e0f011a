"""Machines that were bought at venues under a bid: what managers tell of them, and what providers bill for them.

No log of a cloud has these machines, so their times are those that the manager told.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from app.domain.times import HOUR_US, SECOND_US

BID = "bid"
"""The market of pools at venues, beside those of clouds."""
BID_ENDED = "bid_ended"
"""The kind of event that tells of a whole bid: the node, from_s and to_s (Unix time), and by whom it ended."""
MOST_BIDS = 50_000
"""Of bids that are over, and of those that run, the newest are billed."""


class EndedBy(StrEnum):
    """The side that ended a machine: the provider, as the price was above the bid, or its cluster."""

    PROVIDER = "provider"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ToldBid:
    """A machine under a bid, in the venue's currency an hour, 0 where it was not told. to_us: None while it runs."""

    node: str
    pool: str
    from_us: int
    bid: float = 0.0
    notice_s: float = 0.0
    to_us: int | None = None
    ended_by: EndedBy | None = None


class ToldBids:
    """The machines under bids of a cluster."""

    def __init__(self) -> None:
        self._running: dict[str, ToldBid] = {}
        self._over: dict[str, ToldBid] = {}

    def __iter__(self) -> Iterator[ToldBid]:
        """Yield those that are over, in the order of their ends, then those that run."""
        yield from self._over.values()
        yield from self._running.values()

    def running(self, node: str) -> ToldBid | None:
        """Return the machine of a node that runs."""
        return self._running.get(node)

    def bought(self, bid: ToldBid) -> None:
        """Take in a purchase."""
        if bid.node not in self._over:
            self._running.setdefault(bid.node, bid)
            if len(self._running) > MOST_BIDS:
                del self._running[next(iter(self._running))]

    def ended(self, bid: ToldBid) -> None:
        """Take in the end of a machine; told again it is the same."""
        self._running.pop(bid.node, None)
        self._over.setdefault(bid.node, bid)
        if len(self._over) > MOST_BIDS:
            del self._over[next(iter(self._over))]


def told_end(node: str, pool: str, from_s: float, to_s: float, by: str) -> ToldBid:
    """Return the bid that an event tells of. What is no known word of who ended it counts as the cluster."""
    ended_by = EndedBy.PROVIDER if by == EndedBy.PROVIDER else EndedBy.CLUSTER
    from_us = round(from_s * SECOND_US)
    return ToldBid(node, pool, from_us, to_us=max(round(to_s * SECOND_US), from_us), ended_by=ended_by)


class HourPrices(NamedTuple):
    """Prices of an hour in millionths by rising time; each holds until the next."""

    at_us: Sequence[int]
    micro: Sequence[int]

    def price_at(self, at_us: int) -> int:
        """Return the price at a time; before the first, that one."""
        return self.micro[max(bisect_right(self.at_us, at_us) - 1, 0)]


class Bill(NamedTuple):
    """Machines, their time, and millionths: what they cost, and would have cost on demand (None: not known)."""

    instance_count: int
    used_us: int
    cost_micro: int
    on_demand_micro: int | None


def bill_of(
    bids: Iterable[ToldBid], prices: HourPrices, on_demand_micro: int | None, now_us: int, *, is_by_hour: bool
) -> Bill:
    """Return the bill of machines of one pool.

    By the hour: each hour of a machine at the price at its begin, when the hour is over; the last, partial one if the
    cluster ended the machine, for the hour in which a provider ends it is free. By time: each moment at its price.
    """
    count = used_us = cost = on_demand = 0
    for bid in bids:
        to_us = now_us if bid.to_us is None else bid.to_us
        count, used_us = count + 1, used_us + max(to_us - bid.from_us, 0)
        if is_by_hour:
            cost += sum(prices.price_at(bid.from_us + hour * HOUR_US) for hour in range(_hours(bid, to_us)))
            on_demand += _started_hours(bid, to_us) * (on_demand_micro or 0)
        elif to_us > bid.from_us:
            cost += _by_time(bid.from_us, to_us, prices)
            on_demand += rounded((to_us - bid.from_us) * (on_demand_micro or 0))
    return Bill(count, used_us, cost, None if on_demand_micro is None else on_demand)


def _hours(bid: ToldBid, to_us: int) -> int:
    is_paid_whole = bid.ended_by is EndedBy.CLUSTER
    return _started_hours(bid, to_us) if is_paid_whole else max(to_us - bid.from_us, 0) // HOUR_US


def _started_hours(bid: ToldBid, to_us: int) -> int:
    """Return the hours that were begun; of a machine that runs, those that are over."""
    used_us = max(to_us - bid.from_us, 0)
    return used_us // HOUR_US if bid.to_us is None else max(-(-used_us // HOUR_US), 1)


def _by_time(from_us: int, to_us: int, prices: HourPrices) -> int:
    inside = prices.at_us[bisect_right(prices.at_us, from_us) : bisect_left(prices.at_us, to_us)]
    return rounded(sum((end - begin) * prices.price_at(begin) for begin, end in pairwise([from_us, *inside, to_us])))


def rounded(micro_hours_us: int) -> int:
    """Return millionths, rounded half up."""
    return (2 * micro_hours_us + HOUR_US) // (2 * HOUR_US)
