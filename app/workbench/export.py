"""Writes a running cloud's log as CSV."""

from __future__ import annotations

from typing import TextIO

from app.domain.events.wire import of_wire
from app.domain.progress import Progress
from app.workbench.logcsv import LogWriter
from tenure_client import TenureClient


def export_log(client: TenureClient, cloud: str, file: TextIO, *, progress: Progress | None = None) -> None:
    """Write every event of the cloud's log with its seq."""
    last_seq = client.cloud(cloud).seq
    writer = LogWriter(file)
    for event in client.events(cloud):
        writer.write(of_wire(dict(event.fields)))
        if progress is not None:
            progress(event.seq, last_seq)
