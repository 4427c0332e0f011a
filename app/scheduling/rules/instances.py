"""The record of an instance: the decision on its start, and its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from app.domain.events import (
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
    StartDecision,
)
from app.domain.values import InstanceStatus

End = InstanceStopped | InstanceEvicted
OfStart = TypeVar("OfStart", InstanceStarted, StartDecision)


@dataclass(frozen=True, slots=True)
class Instance:
    """The decision on a start and its place in the log; the instance's end, last extension and last move, if any."""

    decision: StartDecision
    seq: int
    end: End | None
    extension: InstanceExtended | None = None
    move: InstanceMoved | None = None

    @property
    def node(self) -> str | None:
        """The node where it runs, or ran at its end; of a group the first member's. None: it was rejected."""
        if isinstance(self.decision, InstanceRejected):
            return None
        return self.decision.node if self.move is None else self.move.node

    @property
    def flavor(self) -> str:
        """The flavor, as asked for or as observed since."""
        return (None if self.move is None else self.move.as_flavor) or self.decision.flavor

    @property
    def lifetime_us(self) -> int | None:
        """The lifetime, as declared at the start or as extended since."""
        return self.decision.lifetime_us if self.extension is None else self.extension.lifetime_us

    @property
    def as_extended(self) -> StartDecision:
        """The decision on the start as if it had been for the present lifetime."""
        return extended(self.decision, self.extension)

    @property
    def status(self) -> InstanceStatus:
        """The present state of the instance, or its outcome."""
        if isinstance(self.decision, InstanceRejected):
            return InstanceStatus.REJECTED
        if isinstance(self.end, InstanceEvicted):
            return InstanceStatus.EVICTED
        return InstanceStatus.RUNNING if self.end is None else InstanceStatus.STOPPED


def decision_in(recorded: Recorded) -> StartDecision:
    """Narrow a recorded event to a decision on a start."""
    assert isinstance(recorded.event, InstanceStarted | InstanceRejected)
    return recorded.event


def end_in(recorded: Recorded | None) -> End | None:
    """Narrow a recorded event to an instance's end; None stays None."""
    if recorded is None:
        return None
    assert isinstance(recorded.event, InstanceStopped | InstanceEvicted)
    return recorded.event


def never_ran(end: End | None) -> bool:
    """Return True for the end of an instance that was accepted and never ran."""
    return isinstance(end, InstanceStopped) and end.aborted


def moved(decision: OfStart, move: InstanceMoved | None) -> OfStart:
    """Return the decision on a start as if it had been for the place, and the flavor, of the instance's last move."""
    if move is None or not isinstance(decision, InstanceStarted):
        return decision
    return replace(decision, node=move.node, flavor=move.as_flavor or decision.flavor)


def extended(decision: StartDecision, extension: InstanceExtended | None) -> StartDecision:
    """Return the decision on a start as if it had been for the lifetime of the instance's last extension."""
    return decision if extension is None else replace(decision, lifetime_us=extension.lifetime_us)
