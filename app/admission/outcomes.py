"""The steps of a batch that are no requests, and the outcomes of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.domain.errors import TenureError
from app.domain.events import Event, ExtensionDecision, InstanceMoved, StartDecision
from app.domain.requests import Operation
from app.engine.cloud import Cloud


@dataclass(frozen=True, slots=True)
class Change:
    """An operator's change. `decide` returns its events, given the state and a time in microseconds.

    `jump` allows a time further ahead of an external clock than the policy's step. `starts`: ids of instances that it
    may start, which must be new. `keeps`: ids that it may keep for later ones, which must be new as well.
    """

    decide: Callable[[Cloud, int], Sequence[Event]]
    at_us: int | None = None
    jump: bool = False
    starts: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """The answer to a start: the decision and its seq. `repeated` says that an earlier request had it decided."""

    decision: StartDecision
    seq: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """The answer to a stop. `changed` is False if the instance had ended before."""

    instance_id: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Extended:
    """The answer to an extension: the decision and its seq. `repeated` says that an earlier request had it decided."""

    decision: ExtensionDecision
    seq: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """The answer to a move. `changed` is None if the instance was on that node already, else the event and its seq."""

    instance_id: str
    node: str
    changed: tuple[InstanceMoved, int] | None


@dataclass(frozen=True, slots=True)
class Observed:
    """The answer to an observation: its events, the last of which is the start or the move, and that one's seq.

    Without events it was known.
    """

    instance_id: str
    events: tuple[Event, ...] = ()
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to a change: its events, none if the state was as wanted already."""

    events: tuple[Event, ...]


Step = Operation | Change
Outcome = Started | Stopped | Extended | Moved | Observed | Changed | TenureError
