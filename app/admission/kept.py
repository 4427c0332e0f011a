"""Ids that are kept for jobs of peers: from the moment their room is held nobody else starts an instance of that id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.domain.errors import InstanceConflict
from app.domain.events import Event, InstanceStarted, RoomHeld
from app.domain.jobs import AttemptKey, Word
from app.engine.cloud import Cloud, attempt_named, held_name, run_name

_WAITING = frozenset({Word.HELD, Word.STAGING})


def is_kept(cloud: Cloud, name: str) -> bool:
    """Return True if an attempt whose room is held will run under this id."""
    key = attempt_named(name) if cloud.jobs.held else None
    return key is not None and cloud.jobs.host.word_on(key) in _WAITING


def check_not_kept(cloud: Cloud, name: str) -> None:
    """Raise InstanceConflict if the id is kept for a job of a peer."""
    if is_kept(cloud, name):
        raise InstanceConflict(f"the id {name!r} is kept for a job of a peer: choose another one")


def check_not_held(cloud: Cloud, name: str) -> None:
    """Raise InstanceConflict for room that is held for an attempt: its award or its time ends it, and nobody else."""
    key = cloud.jobs.foreign.get(name)
    if key is not None and name == held_name(key):
        raise InstanceConflict(f"{name!r} is room that is held for a job of a peer; it goes by itself before long")


def check_not_running(cloud: Cloud, events: Iterable[Event]) -> None:
    """Raise InstanceConflict if something runs under an id that one of the events starts or keeps."""
    for name in new_ids(events):
        if name in cloud.running:
            raise InstanceConflict(f"the id {name!r} is that of an instance that runs")


def new_ids(events: Iterable[Event]) -> Iterator[str]:
    """Yield the ids of what starts, and those that are kept from now on."""
    for event in events:
        if isinstance(event, InstanceStarted):
            yield event.instance_id
        elif isinstance(event, RoomHeld):
            yield run_name(AttemptKey(event.peer, event.job, event.attempt))
