"""The record of an instance: the decision on its start, and its end."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.events import (
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
    StartDecision,
)
from app.domain.values import InstanceStatus

End = InstanceStopped | InstanceEvicted


@dataclass(frozen=True, slots=True)
class Instance:
    """The decision on a start, its place in the log, and the end of the instance, if it has ended."""

    decision: StartDecision
    seq: int
    end: End | None

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
