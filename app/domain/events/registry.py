"""The table of all kinds of events, and the lists derived from it."""

from __future__ import annotations

from typing import get_args

from app.domain.events import Event
from app.domain.events.kinds import REGISTERED, Group, Kind

KINDS: dict[str, Kind] = {REGISTERED[form].name: REGISTERED[form] for form in get_args(Event)}
"""All kinds by their name in the log and in the API."""
INDECISIVE = frozenset(kind.name for kind in KINDS.values() if not kind.decisive)
URGENT = frozenset(kind.name for kind in KINDS.values() if kind.urgent)


def kind_of(event: Event) -> str:
    """Return the event's name in the log and in the API."""
    return REGISTERED[type(event)].name


def names_of(group: Group) -> tuple[str, ...]:
    """Return the names of the kinds of a group."""
    return tuple(kind.name for kind in KINDS.values() if kind.group is group)


STARTS = names_of(Group.START)
ENDS = names_of(Group.END)
NOTICES = names_of(Group.NOTICE)
EXTENSIONS = names_of(Group.EXTENSION)
ENDINGS = names_of(Group.ENDING)
POLICIES = names_of(Group.POLICY)
