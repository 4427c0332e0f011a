"""What became of an instance: the decision on its start, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.events import (
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    Recorded,
    StartDecision,
)

End = InstanceStopped | InstanceEvicted


class InstanceStatus(StrEnum):
    """What became of an instance."""

    RUNNING = "running"
    STOPPED = "stopped"
    EVICTED = "evicted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Instance:
    """The decision on a start, its place in the log, and how the instance ended, if it did."""

    decision: StartDecision
    seq: int
    end: End | None

    @property
    def status(self) -> InstanceStatus:
        """What became of it."""
        if isinstance(self.decision, InstanceRejected):
            return InstanceStatus.REJECTED
        if isinstance(self.end, InstanceEvicted):
            return InstanceStatus.EVICTED
        return InstanceStatus.RUNNING if self.end is None else InstanceStatus.STOPPED


def decision_in(recorded: Recorded) -> StartDecision:
    """The decision on a start that this event is."""
    assert isinstance(recorded.event, InstanceStarted | InstanceRejected)
    return recorded.event


def end_in(recorded: Recorded | None) -> End | None:
    """The end of an instance that this event is; None of none."""
    if recorded is None:
        return None
    assert isinstance(recorded.event, InstanceStopped | InstanceEvicted)
    return recorded.event
