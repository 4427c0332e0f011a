"""The head of a cloud's state: its log's last position and time, and the policy in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.events import CloudCreated, Event, PolicyChanged
from app.domain.values import Policy
from app.engine.cloud.records import Facts, Fold, Undo


class Head:
    """The position and time of the last event, the time of the first, and the policy."""

    def __init__(self) -> None:
        self.seq = 0
        self.at_us = 0
        self.last: Event | None = None
        self.created_us = 0
        self.policy = Policy()

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {CloudCreated: self._create, PolicyChanged: self._change_policy}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"seq": self.seq, "at_us": self.at_us, "created_us": self.created_us, "policy": self.policy}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.seq, self.at_us, self.created_us, self.policy = facts[:4]

    def advance(self, event: Event) -> Undo:
        """Count an event. Its time must not be before the last one's."""
        before = self.seq, self.at_us, self.last
        self.seq += 1
        self.at_us = event.at_us
        self.last = event
        return lambda: self._reset(*before)

    def advance_over(self, events: Sequence[Event]) -> Undo:
        """Count events like `advance`."""
        before = self.seq, self.at_us, self.last
        self.seq += len(events)
        self.at_us, self.last = events[-1].at_us, events[-1]
        return lambda: self._reset(*before)

    def _reset(self, seq: int, at_us: int, last: Event | None) -> None:
        self.seq, self.at_us, self.last = seq, at_us, last

    def _create(self, event: CloudCreated) -> Undo:
        self.created_us = event.at_us
        return self._set_policy(event.policy)

    def _change_policy(self, event: PolicyChanged) -> Undo:
        return self._set_policy(event.policy)

    def _set_policy(self, policy: Policy) -> Undo:
        old, self.policy = self.policy, policy
        return lambda: setattr(self, "policy", old)
