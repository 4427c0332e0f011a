"""The manager's record, a file beside Slurm's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_READ_BYTES = 1 << 21


def now() -> str:
    """Return the time as events write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Events:
    """The record of what the manager did and why, a line of JSON each.

    People read it. No action rests on it: a manager only looks what it has told of already.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, /, **facts: object) -> None:
        """Append an event; now, if it does not say when. A full disk loses it, and stops nothing."""
        line = json.dumps({"at": facts.pop("at", None) or now(), "kind": kind, **facts})
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            sys.stderr.write(f"{error}: {line}\n")

    def newest(self) -> Iterator[dict[str, Any]]:
        """Yield the events of the record's last part, in order; lines that are none are left out."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(self.path.stat().st_size - _READ_BYTES, 0))
                lines = file.read(_READ_BYTES).splitlines()
        except OSError:
            return
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event
