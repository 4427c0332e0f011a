"""Compares an event of an import with the one that a log has in its place: do options alone differ, or more?"""

from __future__ import annotations

from dataclasses import replace

from app.domain.events import CloudCreated, Event, PolicyChanged
from app.domain.events.wire import value_to_wire
from app.domain.policies import unprotected
from app.domain.values import Guarantee


def begins_live(event: Event) -> bool:
    """Return True for the first event of a cloud that no import made: nothing is promised in a past."""
    return isinstance(event, CloudCreated) and event.policy.guarantee is not Guarantee.NONE


def options_that_differ(ours: Event, logged: Event) -> list[str] | None:
    """Return the fields of the policy by which the events differ, in words; None if they differ by more."""
    if not isinstance(ours, CloudCreated | PolicyChanged) or not isinstance(logged, CloudCreated | PolicyChanged):
        return None
    if replace(ours, policy=logged.policy) != logged:
        return None
    here, there = value_to_wire(ours.policy), value_to_wire(logged.policy)
    names = [name for name in here if here[name] != there[name]]
    return [f"{name} is {_told(there[name])} there and {_told(here[name])} here" for name in names]


def is_of_an_earlier_version(ours: Event, logged: Event) -> bool:
    """Return True if the log has what an earlier version wrote for this event: pasts ended without protection."""
    if not isinstance(ours, PolicyChanged) or not isinstance(logged, PolicyChanged):
        return False
    return replace(ours, policy=unprotected(ours.policy)) == logged


def _told(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
