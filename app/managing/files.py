"""Small files that are there as a whole or not at all, whatever dies while they are written."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def put(
    path: Path,
    content: str | bytes,
    *,
    mode: int = 0o644,
    owner: tuple[int, int] | None = None,
    is_durable: bool = False,
) -> None:
    """Put a file in its place as a whole. owner: user and group, if we may; is_durable: it is on the disk then, too."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        _write(new, content.encode() if isinstance(content, str) else content, mode, owner, is_durable=is_durable)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if is_durable:
        sync(path.parent)


def _write(new: Path, content: bytes, mode: int, owner: tuple[int, int] | None, *, is_durable: bool) -> None:
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(handle, "wb") as file:  # noqa: PTH123 - of a handle, so that nobody sees it with another mode
        if owner is not None:
            with suppress(OSError):
                os.fchown(handle, *owner)
        os.fchmod(handle, mode)
        file.write(content)
        if is_durable:
            file.flush()
            os.fsync(handle)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_object(path: Path, most_bytes: int) -> dict[str, Any]:
    """Return the object of JSON in a file; empty if there is none, or it is larger than that."""
    with suppress(OSError, ValueError, RecursionError):
        with path.open("rb") as file:
            found = json.loads(file.read(most_bytes + 1)[:most_bytes])
        return found if isinstance(found, dict) else {}
    return {}
