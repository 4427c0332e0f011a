"""The room of a node that evicted instances may still use until their deadlines."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from operator import itemgetter

from app.domain.values import Resources
from app.engine.cloud.nodes import minus, plus

_NOTHING = Resources(0)


class Departures:
    """The resources that leave one node, in all and by deadline. What leaves at one time stands together."""

    def __init__(self) -> None:
        self.deadlines: list[int] = []
        self._at: dict[int, tuple[int, Resources]] = {}
        self._total = _NOTHING

    def add(self, deadline_us: int, demand: Resources, sign: int) -> None:
        """Count an instance that leaves at its deadline, or take it out again (sign -1)."""
        change = plus if sign > 0 else minus
        count, sum_there = self._at.get(deadline_us, (0, _NOTHING))
        self._total = change(self._total, demand)
        self._at[deadline_us] = count + sign, change(sum_there, demand)
        if not count:
            insort(self.deadlines, deadline_us)
        elif not count + sign:
            del self._at[deadline_us]
            del self.deadlines[bisect_left(self.deadlines, deadline_us)]

    def fits_us(self, room: Resources, leaves: tuple[int, Resources], now_us: int) -> int | None:
        """Return when what has not left yet fits into the room; None: now.

        `leaves`: a time and the resources that leave then too.
        """
        if _fits(room, plus(self._total, leaves[1])):
            return None
        if not _fits(room, _NOTHING):
            raise AssertionError("the instance does not fit on its node")
        stays, there = _NOTHING, ((at_us, self._at[at_us][1]) for at_us in reversed(self.deadlines))
        for deadline_us, demand in merge(there, [leaves], key=itemgetter(0), reverse=True):
            if deadline_us <= now_us:
                return None
            stays = plus(stays, demand)
            if not _fits(room, stays):
                return deadline_us
        return None


def _fits(room: Resources, demand: Resources) -> bool:
    return all(needed <= free for needed, free in zip(demand, room, strict=True))
