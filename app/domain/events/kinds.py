"""The properties that a kind of event has besides its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

T = TypeVar("T")


class Group(Enum):
    """Kinds that the log is searched for together. An instance has one event of START and at most one of END."""

    POLICY = auto()
    START = auto()
    END = auto()
    NOTICE = auto()
    EXTENSION = auto()
    MOVE = auto()
    ENDING = auto()
    JOB = auto()
    FOREIGN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of event.

    `name` and `version` are written with each event and never change their meaning. The version rises when fields
    change in a way that defaults do not cover. `since` is the log format that introduced the kind in this version. A
    field that was introduced later says so in its metadata. `subject` is the field that names the object of the event;
    None stands for the cloud. Webhooks deliver `urgent` events first. `outcome` is the kind's name in the filter of
    decisions, if it has one. Replays and imports skip events that are not `decisive`, for these change no later
    decision.
    """

    name: str
    form: type
    version: int = 1
    since: int = 1
    subject: str | None = None
    group: Group | None = None
    urgent: bool = False
    outcome: str | None = None
    decisive: bool = True


REGISTERED: dict[type, Kind] = {}


def event(name: str, **properties: Any) -> Callable[[type[T]], type[T]]:  # noqa: ANN401 - the fields of `Kind`
    """Register the class below as a kind of event; the arguments are those of `Kind`."""

    def register(form: type[T]) -> type[T]:
        REGISTERED[form] = Kind(name=name, form=form, **properties)
        return form

    return register
