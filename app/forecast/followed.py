"""Follows the spot starts of a cloud's log to their ends, and learns from them what its calibrated forecast needs.

A start counts whether it was admitted or not; those that were admitted alone would be a choice of the forecast itself.
`recorded` finds what became of each. What the forecast says of it is computed as live: from the state that the log
gives before it, and from the rises up to the last whole day before it. So the level of a table and the design effects
rest on nothing but the log before it.
"""

from __future__ import annotations

from app.domain.times import DAY_US
from app.domain.values import Policy, Resources
from app.forecast.design import design_effects, no_spans
from app.forecast.level import Cases
from app.forecast.operations import REJECTED
from app.forecast.recorded import Learned, enlarged_recorded, first_recorded, read
from app.forecast.replayed import History
from app.forecast.rise import RiseHistory, Rises
from app.forecast.worlds import code_of

NOTHING_SEEN = RiseHistory(0, len(Resources._fields)).publish()


class FollowedStarts:
    """Reads a growing history. Its memory does not grow with it; its result does not depend on when it is asked."""

    def __init__(self, policy: Policy) -> None:
        """`policy` says how virtual instances are placed and evicted."""
        self._eviction_policy = code_of(policy)
        self._state = first_recorded(policy.placement)
        self._cases = Cases()
        self._learned = Learned(self._cases.counts, no_spans())
        self._rises: RiseHistory | None = None
        self._begin_us = self._curves_us = 0
        self._curves = NOTHING_SEEN

    @property
    def kept_bytes(self) -> int:
        """The memory of the recorded state and of the worlds beside it."""
        return sum(array.nbytes for array in self._state.run)

    def read(self, history: History, until_us: int) -> None:
        """Lead the history on to `until_us`, day by day of the cloud's life where there are spot starts, and read it.

        What starts in a day reads the curves of its beginning. Days without spot starts are passed over: years of them
        would cost as much as years with many (decision 293).
        """
        first_us = history.next_us
        if self._rises is None and first_us is not None and first_us < until_us:
            self._begin(first_us)
        while (spot_us := history.next_spot_us) is not None and spot_us < until_us:
            self._renew_curves(history, spot_us)
            self._lead(history, min(until_us, self._curves_us + DAY_US))
        if self._rises is not None:
            self._renew_curves(history, until_us)
            self._lead(history, until_us)

    def publish(self, history: History, until_us: int) -> Rises | None:
        """Return the rises up to `until_us` with the level learned so far; None before the cloud's beginning."""
        self.read(history, until_us)
        if self._rises is None or until_us <= self._begin_us:
            return None
        rises = self._published(history, self._rises, until_us)
        evidence, effects = self._cases.evidence(rises.seen_us), design_effects(self._learned.spans)
        return rises._replace(starts=evidence, effects=effects)

    def _begin(self, at_us: int) -> None:
        self._begin_us = self._curves_us = at_us
        self._rises = RiseHistory(at_us, len(Resources._fields))

    def _renew_curves(self, history: History, at_us: int) -> None:
        """Bring the curves to the last whole day of the cloud's life."""
        day_us = at_us - (at_us - self._begin_us) % DAY_US
        if day_us > self._curves_us and self._rises is not None:
            self._lead(history, day_us)
            self._curves, self._curves_us = self._published(history, self._rises, day_us), day_us

    def _published(self, history: History, rises: RiseHistory, until_us: int) -> Rises:
        """Return the curves of the history, which has been led to `until_us`, with the level that it teaches."""
        rises.extend(history.operations(until_us), history.node_count, history.row_count, until_us)
        found = rises.publish()
        return found._replace(level=self._cases.level(found.seen_us))

    def _lead(self, history: History, until_us: int) -> None:
        """Lead the history on, and the recorded state after it."""
        operations, omitted = history.operations(until_us), history.take_omitted()
        has_rejected = bool((omitted.kind == REJECTED).any())
        self._state = enlarged_recorded(self._state, history.node_count, history.row_count, has_rejected=has_rejected)
        read(self._state, self._learned, operations, omitted, self._curves, self._eviction_policy, until_us)
