"""Writes a running cloud's log as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from app.domain.events import Recorded
from app.domain.events.wire import of_wire
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
        return of_wire(fields)
    except (ValueError, KeyError) as error:
        raise InputError(
            f"event {fields.get('seq')} cannot be read ({error}): use the command of the service's version"
        ) from error
