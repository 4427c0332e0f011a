"""The manager's record, a file beside Slurm's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path


class Events:
    """The record of what the manager did and why, a line of JSON each. People read it; the manager never does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, **facts: object) -> None:
        """Append an event."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "kind": kind, **facts})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
