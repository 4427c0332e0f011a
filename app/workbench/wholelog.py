"""A log as CSV that is decided again: read by the rules of an import, so that a damaged one is refused by its line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from app.domain.events import Recorded
from app.domain.events.registry import STARTS
from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.values import Policy
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.import_formats.log import LogReader
from app.workbench.logcsv import LogRow, read_rows, unread
from app.workbench.logevents import events_of, flavor_told

_TELL_EVERY = 1_000


def read_whole_log(path: Path, progress: Progress) -> list[Recorded]:
    """Return the events of a log file. Raises InputError with the line that breaks a rule, or if there is none."""
    numbers, rows = _checked(path, progress)
    if not rows:
        raise InputError(f"{path}: the log is empty")
    return events_of(rows, Policy(), lambda index: f"{path}, line {numbers[index]}")


def _checked(path: Path, progress: Progress) -> tuple[list[int], list[LogRow]]:
    """Return the rows of the file with the numbers of their lines."""
    lines, numbers, rows = _lines(path), list[int](), list[LogRow]()
    with Scratch() as scratch:
        reader = LogReader(Past(scratch, [str(path)], Wishes()))
        for number, row in read_rows(lines, str(path)):
            reader.take(number, row)
            numbers.append(number)
            rows.append(row)
            if len(rows) % _TELL_EVERY == 0:
                progress(number, len(lines))
        reader.end()
    if rows and rows[0].kind == "cloud_created":
        _check_flavors(rows, lambda index: f"{path}, line {numbers[index]}")
    return numbers, rows


def _check_flavors(rows: Sequence[LogRow], place_of: Callable[[int], str]) -> None:
    """Raise InputError for a flavor that the log did not add before."""
    added = set[str]()
    for index, row in enumerate(rows):
        asked = [flavor_told(row)] if row.kind in STARTS else [row.as_flavor] if row.as_flavor is not None else []
        if row.kind == "flavor_added":
            added.add(flavor_told(row))
        for flavor in asked:
            if flavor not in added:
                raise InputError(f"{place_of(index)}: the log did not add the flavor {flavor!r} before")


def _lines(path: Path) -> list[str]:
    """Return all lines of a file: their number is known before they are read, of a pipe too."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.readlines()
    except OSError as error:
        raise unread(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from error
