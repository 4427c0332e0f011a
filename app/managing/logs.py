"""Bounds the logs of a cluster: how large each may grow, and how many of nodes that are gone are kept."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 16 << 20
"""A log that has grown larger is cut. Its last part is kept beside it, as `.old`."""
KEPT_BYTES = 1 << 20
MOST_FILES = 400
"""Of so many logs, two of each node, the newest are kept."""
_EVERY_S = 60.0


class BoundedLogs:
    """The folders of logs, which are looked at once a minute. All that write there append."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._looked_s = time.monotonic()

    def look(self) -> None:
        """Cut and remove what is too much, if it is time. Raise OSError if that fails."""
        if time.monotonic() - self._looked_s >= _EVERY_S:
            self._looked_s = time.monotonic()
            for folder in self._folders:
                bound_logs(folder)


def bound_logs(
    folder: Path, most_bytes: int = MOST_BYTES, kept_bytes: int = KEPT_BYTES, most: int = MOST_FILES
) -> None:
    """Cut the large logs of a folder, and remove the oldest beyond so many. What is written to is among the newest."""
    for path in _files(folder):
        if path.stat().st_size > most_bytes:
            _cut(path, kept_bytes)
    newest = sorted(_files(folder), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[most:]:
        path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file() and path.suffix in {".log", ".txt", ".old"})


def _cut(path: Path, kept_bytes: int) -> None:
    with path.open("rb") as file:
        file.seek(-kept_bytes, os.SEEK_END)
        path.with_name(f"{path.name}.old").write_bytes(file.read(kept_bytes))
    os.truncate(path, 0)
