"""What is known of a kind of event beside its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

T = TypeVar("T")


class Group(Enum):
    """Kinds that the log is searched for together. Of an instance it holds one start and at most one end."""

    POLICY = auto()
    START = auto()
    END = auto()
    NOTICE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of event.

    `name` and `version` are written with each event and are permanent: the version rises when the fields change in a
    way that their defaults do not cover. `since` is the log format that the kind, in this version, came with; a field
    that came later says so in its metadata. `subject` is the field that names what the event is about; None: the cloud.
    Webhooks deliver urgent events before the others. `outcome` is how decisions are filtered for it, if they are.
    Events that are not `decisive` change nothing that is decided later: replays and imports pass over them.
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


def event(
    name: str,
    *,
    version: int = 1,
    since: int = 1,
    subject: str | None = None,
    group: Group | None = None,
    urgent: bool = False,
    outcome: str | None = None,
    decisive: bool = True,
) -> Callable[[type[T]], type[T]]:
    """Register the class below as a kind of event; the arguments are those of `Kind`."""

    def register(form: type[T]) -> type[T]:
        REGISTERED[form] = Kind(
            name=name,
            form=form,
            version=version,
            since=since,
            subject=subject,
            group=group,
            urgent=urgent,
            outcome=outcome,
            decisive=decisive,
        )
        return form

    return register
