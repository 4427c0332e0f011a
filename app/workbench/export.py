"""Writes a running cloud's log as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from app.domain.events import Recorded
from app.domain.events.wire import of_wire, to_wire
from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.workbench.logcsv import LogWriter
from tenure_client import TenureClient


def export_log(client: TenureClient, cloud: str, file: TextIO, *, progress: Progress | None = None) -> None:
    """Write every event of the cloud's log with its seq. Raises InputError for one that this version cannot read."""
    last_seq = client.cloud(cloud).seq
    writer = LogWriter(file)
    for event in client.events(cloud):
        writer.write(recorded_of(event.fields))
        if progress is not None:
            progress(event.seq, last_seq)


def recorded_of(fields: Mapping[str, Any]) -> Recorded:
    """Return the event of an answer. Raises InputError if a newer service wrote it in a way that is unknown here."""
    try:
        recorded = of_wire(fields)
        _check_known(fields, to_wire(recorded))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"event {fields.get('seq')} cannot be read ({error}): use the command of the service's version"
        ) from error
    return recorded


def _check_known(given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise ValueError if an event, or an object in it, has a field that was not read."""
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"the field {name!r} is unknown")
        several = isinstance(value, list)
        for one, read in zip(value, known[name], strict=True) if several else [(value, known[name])]:
            if isinstance(one, dict):
                _check_known(one, read)
