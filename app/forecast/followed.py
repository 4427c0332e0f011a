"""Follows the spot starts of a cloud's log to their ends, and learns the level of its calibrated forecast.

A start counts whether it was admitted or not; those that were admitted alone would be a choice of the forecast itself.
An admitted one has its own fate, a rejected one that of a virtual instance (`virtual`). What the forecast says of it is
computed as live: from the state that the log gives before it, and from the rises up to the last whole day before it.
So the level of a table rests on nothing but the log before it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from app.domain.events import (
    CloudCreated,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
)
from app.domain.strata import STRATA
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import EvictionReason, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.forecast.calibrated import eviction_probability
from app.forecast.level import Cases, stratum_index
from app.forecast.replayed import History
from app.forecast.rise import RiseHistory, Rises
from app.forecast.virtual import LONGEST_US, Followed, VirtualStarts

PACE_US = HOUR_US // 12
PACE_PARTS = 32
"""The starts of a stratum are followed at least five minutes apart, and a 32nd of the last one's lifetime."""
_UNREAD = 1024


class FollowedStarts:
    """Reads a growing log. Its memory does not grow with the log; its result does not depend on when it is asked."""

    def __init__(self, policy: Policy) -> None:
        """`policy` says how virtual instances are evicted."""
        self._cloud, self._unread = Cloud(), list[Recorded]()
        self._waiting: deque[Recorded] = deque()
        self._rises: RiseHistory | None = None
        self._curves: Rises | None = None
        self._begin_us = self._curves_us = 0
        self._next_us = [0] * len(STRATA)
        self._seq_of: dict[str, int] = {}
        self._pending: dict[int, Followed] = {}
        self._due: list[tuple[int, int]] = []
        self._cases = Cases()
        self.virtual = VirtualStarts(policy)

    def extend(self, recorded: Iterable[Recorded]) -> None:
        """Take the log's next events; `read` reads them when their time has come."""
        self._waiting.extend(recorded)

    def read(self, history: History, until_us: int) -> None:
        """Read the events before `until_us`. `history` has taken them too, and is led on to the days that begin."""
        while self._waiting and self._waiting[0].event.at_us < until_us:
            item = self._waiting.popleft()
            event = item.event
            if isinstance(event, CloudCreated):
                self._begin_us = self._curves_us = event.at_us
                self._rises = RiseHistory(event.at_us, len(Resources._fields))
            elif isinstance(event, InstanceStarted | InstanceRejected) and event.market is Market.SPOT:
                self._meet(history, event, item.seq)
            elif isinstance(event, InstanceStopped):
                self._seq_of.pop(event.instance_id, None)
            elif isinstance(event, InstanceEvicted):
                self._evict(event)
            self._unread.append(item)
            if len(self._unread) >= _UNREAD:
                self._catch_up()
        self._renew_curves(history, until_us)

    def publish(self, history: History, until_us: int) -> Rises | None:
        """Return the rises up to `until_us` with the level learned so far; None before the cloud's beginning."""
        self.read(history, until_us)
        if self._rises is None or until_us <= self._begin_us:
            return None
        self._settle(history, until_us)
        rises = self._rises.publish()
        evidence, level = self._cases.evidence(rises.seen_us), self._cases.level(rises.seen_us)
        return rises._replace(level=level, starts=evidence)

    def _meet(self, history: History, event: InstanceStarted | InstanceRejected, seq: int) -> None:
        """Follow the start, unless one of its stratum was followed just before, or it does not fit."""
        at_us, lifetime_us = event.at_us, event.lifetime_us or 0
        stratum = stratum_index(lifetime_us)
        if at_us < self._next_us[stratum] or lifetime_us > LONGEST_US:
            return
        self._renew_curves(history, at_us)
        if self._curves is None:
            return
        self._catch_up()
        outlook = self._cloud.outlook(event.flavor, at_us)
        if outlook.slots <= 0:
            return
        self._next_us[stratum] = at_us + max(PACE_US, lifetime_us // PACE_PARTS)
        said = float(eviction_probability(self._curves, outlook, lifetime_us))
        start = Followed(at_us, lifetime_us, said)
        if isinstance(event, InstanceRejected):
            self.virtual.follow(event.flavor, start, self._curves_us)
            return
        self._seq_of[event.instance_id], self._pending[seq] = seq, start
        heapq.heappush(self._due, (at_us + lifetime_us, seq))

    def _evict(self, event: InstanceEvicted) -> None:
        """Count the end of a followed start. A drill within its lifetime says nothing of the load."""
        start = self._pending.pop(self._seq_of.pop(event.instance_id, 0), None)
        if start is None:
            return
        within = event.at_us - start.at_us <= start.lifetime_us
        if not within or event.reason is not EvictionReason.DRILL:
            self._cases.count(start.said, start.lifetime_us, evicted=within)

    def _renew_curves(self, history: History, at_us: int) -> None:
        """Bring the curves to the last whole day of the cloud's life."""
        day_us = at_us - (at_us - self._begin_us) % DAY_US
        if day_us > self._curves_us and self._rises is not None:
            self._settle(history, day_us)
            self._curves, self._curves_us = self._rises.publish(), day_us

    def _settle(self, history: History, until_us: int) -> None:
        """Count the rises, and the starts whose ends are known; all events before `until_us` have been read."""
        operations = history.operations(until_us)
        if self._rises is not None:
            self._rises.extend(operations, history.node_count, history.row_count, until_us)
        while self._due and self._due[0][0] < until_us:
            start = self._pending.pop(heapq.heappop(self._due)[1], None)
            if start is not None:
                self._cases.count(start.said, start.lifetime_us, evicted=False)
        for start, evicted in self.virtual.advance(history, until_us):
            self._cases.count(start.said, start.lifetime_us, evicted=evicted)

    def _catch_up(self) -> None:
        """Fold the events read since the last outlook into the state."""
        self._cloud.apply_recorded(self._unread)
        self._unread.clear()
