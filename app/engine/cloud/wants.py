"""The part of a cloud's state that holds what wants a longer lifetime than it was promised, and when it is looked at.

An instance is looked at when half of what its last promise left is over, then a quarter, an eighth and so on, at whole
minutes of the cloud's time. The last look is some time before the promise ends. If the instance cannot be extended
then, its owner is told (`promise_ending`), and it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.events import (
    InstanceEvicted,
    InstanceExtended,
    InstanceStarted,
    InstanceStopped,
    PolicyChanged,
    PromiseEnding,
)
from app.domain.values import Market
from app.engine.cloud.head import Head
from app.engine.cloud.looks import Want, looks_due
from app.engine.cloud.records import Facts, Fold, Folded, Undo


class Wants:
    """The running instances that want a longer lifetime, by id, and which of them were told that their promise ends.

    It folds an event before the instances do, and reads nothing of them.
    """

    def __init__(self, head: Head) -> None:
        self.by_id: dict[str, Want] = {}
        self.told: set[str] = set()
        self._head = head
        self._earliest_us = 0

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceExtended: self._extend,
            InstanceStopped: self._end,
            InstanceEvicted: self._end,
            PromiseEnding: self._tell,
            PolicyChanged: self._follow,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"wants": sorted(self.by_id.values(), key=lambda want: want.instance_id)}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.by_id.update((want.instance_id, want) for want in facts.wants)
        self.told.update(want.instance_id for want in facts.wants if want.is_told)

    def due(self, after_us: int, until_us: int) -> list[tuple[int, Want]]:
        """Return who is looked at after a time and until another, each with the time of the look, in their order.

        A look that was due before, and after which the owner should have been told, is made up for.
        """
        if not self.by_id or until_us < self._earliest_us:
            return []
        grace_us = self._head.policy.grace_us
        due = looks_due(self.by_id.values(), grace_us, after_us, until_us)
        if not due:
            self._earliest_us = min(want.next_look_us(grace_us, after_us) for want in self.by_id.values())
        return due

    def enter(self, moved: Folded) -> Undo:
        """Fold starts and stops of spot instances that follow each other."""
        undo = [self._start(one) if isinstance(one, InstanceStarted) else self._end(one) for one, _ in moved]

        def back() -> None:
            for one in reversed(undo):
                if one is not None:
                    one()

        return back

    def forget_looks(self) -> None:
        """Look through all of them next time: looks that were taken over events that are undone were not taken."""
        self._earliest_us = 0

    def _start(self, event: InstanceStarted) -> Undo | None:
        lifetime_us = event.lifetime_us or 0
        if event.market is not Market.SPOT or event.wanted is None or not event.wanted.exceeds(lifetime_us):
            return None
        want = Want(event.instance_id, event.at_us, event.wanted, event.at_us, event.at_us + lifetime_us)
        return self._put(event.instance_id, want)

    def _extend(self, event: InstanceExtended) -> Undo | None:
        want = self.by_id.get(event.instance_id)
        if want is None:
            return None
        if not want.wanted.exceeds(event.lifetime_us):
            return self._put(event.instance_id, None)
        longer = replace(want, promised_us=event.at_us, deadline_us=event.deadline_us, is_told=False)
        return self._put(event.instance_id, longer)

    def _tell(self, event: PromiseEnding) -> Undo | None:
        want = self.by_id.get(event.instance_id)
        return None if want is None else self._put(event.instance_id, replace(want, is_told=True))

    def _end(self, event: InstanceStopped | InstanceEvicted) -> Undo | None:
        return self._put(event.instance_id, None) if event.instance_id in self.by_id else None

    def _put(self, instance_id: str, want: Want | None) -> Undo:
        """Enter a want in the place of the instance's former one."""
        old = self.by_id.pop(instance_id, None)
        (self.told.add if want is not None and want.is_told else self.told.discard)(instance_id)
        if want is not None:
            self.by_id[instance_id] = want
            first_us = want.next_look_us(self._head.policy.grace_us, want.promised_us)
            self._earliest_us = min(self._earliest_us, first_us)
        return lambda: self._put_back(instance_id, old)

    def _put_back(self, instance_id: str, old: Want | None) -> None:
        self._put(instance_id, old)

    def _follow(self, _event: PolicyChanged) -> None:
        """Another grace period moves the last looks."""
        self.forget_looks()
