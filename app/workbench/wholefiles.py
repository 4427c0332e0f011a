"""Files that a user names come whole or not at all: written beside their place, and put there when all is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.inputs import InputError

_OUTLETS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names that begin so may mean standard output, whatever that is: nothing can take its place."""


@contextmanager
def whole_file(path: Path, *, may_replace: bool = True) -> Iterator[Path]:
    """Give a path to write to, and put what was written in its place at the end. After an error nothing has changed.

    Raises InputError if the file cannot be written, or is there and may not be replaced.
    """
    if _is_outlet(path):
        with _told(path, path):
            yield path
        return
    place = path.resolve()
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    with _told(path, part):
        try:
            _check(path, may_replace=may_replace)
            part.touch()
            yield part
            _check(path, may_replace=may_replace)
            if place.exists():
                shutil.copymode(place, part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Raise InputError if the file cannot be written: now, and not after minutes of work. Nothing is changed."""
    place = path.resolve()
    part = path if _is_outlet(path) else place.with_name(f"{place.name}.{os.getpid()}.part")
    with _told(path, part):
        _check(path, may_replace=True)
        part.open("a").close()
        if part != path:
            part.unlink()


def _is_outlet(path: Path) -> bool:
    return str(path).startswith(_OUTLETS) or (path.exists() and not path.is_file() and not path.is_dir())


def _check(path: Path, *, may_replace: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path}: it is a folder")
    if path.exists() and not may_replace:
        raise InputError(f"{path} is there already: --overwrite replaces it")


@contextmanager
def _told(path: Path, part: Path) -> Iterator[None]:
    """Tell an error of the file, and no other, by the name that the user gave it."""
    try:
        yield
    except OSError as error:
        if error.filename not in {None, str(path), str(part)}:
            raise
        raise InputError(f"{path}: {error.strerror or error}") from error
