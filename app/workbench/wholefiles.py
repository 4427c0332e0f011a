"""Files that a user names come whole or not at all: written beside their place, and put there when all is written."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EBUSY, ENOENT
from pathlib import Path
from secrets import token_hex

from app.domain.inputs import InputError, output_lost
from app.workbench.endings import ending_in_order

_OUTLETS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names that begin so may mean standard output, whatever that is: nothing takes its place, and it is added to."""


@contextmanager
def whole_file(path: Path, *, may_replace: bool = True) -> Iterator[Path]:
    """Give a path to write to, and put what was written in its place at the end. After an error nothing has changed.

    Raises InputError if the file cannot be written, or is there and may not be replaced; and OutputLost if that is
    found out later, as where the disk is full.
    """
    place, part = _beside(path)
    with _told(path, part), ending_in_order():
        try:
            _check(path, may_replace=may_replace)
            part.touch()
            with _told_as_lost(path, part):
                yield part
                _check(path, may_replace=may_replace)
                _put(part, place)
        finally:
            part.unlink(missing_ok=True)


def remove_left(path: Path) -> None:
    """Remove what processes that are gone have left beside the file."""
    place = Path(os.path.realpath(path))
    for part in place.parent.glob(f"{glob.escape(place.name)}.*.part"):
        number = part.name.removeprefix(f"{place.name}.").removesuffix(".part")
        if number.isdecimal() and not _runs(int(number)):
            part.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def check_place(path: Path) -> None:
    """Raise InputError if the file cannot be written: now, and not after minutes of work. Nothing is changed."""
    _, part = _beside(path)
    with _told(path, part):
        _check(path, may_replace=True)
        part.open("a").close()
        part.unlink()


def check_apart(read: Iterable[tuple[str, Path | None]], written: Iterable[tuple[str, Path | None]]) -> None:
    """Raise InputError if a file to be written is one to be read, or another one to be written, by whatever name.

    Each file comes with the words of the command line that name it.
    """
    taken = [(words, path) for words, path in read if path is not None]
    for words, path in written:
        if path is None:
            continue
        with _told(path, path):
            if _is_outlet(path):
                continue
            same = next((other for other in taken if _is_same(path, other[1])), None)
        if same is not None:
            raise InputError(f"{words} {path} would replace the file of {same[0]}, {same[1]}: give another name")
        taken.append((words, path))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return os.path.realpath(one) == os.path.realpath(other)
    except OSError:
        return False


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the place of the file, and the path at which it is written first: of an outlet, among temporary files."""
    if _is_outlet(path):
        return path, Path(tempfile.gettempdir()) / f"tenure-{token_hex(8)}.part"
    place = Path(os.path.realpath(path))
    if not place.name:
        raise InputError(f"{path}: it is a folder")
    return place, place.with_name(f"{place.name}.{os.getpid()}.part")


def _put(part: Path, place: Path) -> None:
    """Put what was written in its place. What cannot be replaced is written to, and an outlet keeps what it had."""
    if _is_outlet(place):
        with part.open("rb") as written, place.open("ab") as outlet:
            shutil.copyfileobj(written, outlet)
        return
    if place.exists():
        shutil.copymode(place, part)
    try:
        part.replace(place)
    except OSError as error:
        if error.errno != EBUSY:  # as of a file that is mounted there by itself
            raise
        shutil.copyfile(part, place)


def _is_outlet(path: Path) -> bool:
    return str(path).startswith(_OUTLETS) or (path.exists() and not path.is_file() and not path.is_dir())


def _check(path: Path, *, may_replace: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path}: it is a folder")
    if _is_outlet(path) and not path.exists():
        raise InputError(f"{path}: {os.strerror(ENOENT)}")
    if path.exists() and not may_replace and not _is_outlet(path):
        raise InputError(f"{path} is there already: --overwrite replaces it")


@contextmanager
def _told_as_lost(path: Path, part: Path) -> Iterator[None]:
    """Tell an error of the file that comes when work was done for it: that is no bad input any more."""
    try:
        yield
    except OSError as error:
        if error.filename not in {None, str(path), str(part)}:
            raise
        raise output_lost(path, error, "the file is not written") from error


@contextmanager
def _told(path: Path, part: Path) -> Iterator[None]:
    """Tell an error of the file, and no other, by the name that the user gave it."""
    try:
        yield
    except OSError as error:
        if error.filename not in {None, str(path), str(part)}:
            raise
        raise InputError(f"{path}: {error.strerror or error}") from error
