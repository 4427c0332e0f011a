"""Output of commands: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import shlex
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from app.domain.inputs import InputError, OutputLost
from app.workbench.wholefiles import check_place, whole_file

if TYPE_CHECKING:
    from tenure_client.forms.answer import Answer

A = TypeVar("A", bound="Answer")

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_PIPED_WIDTH = 1000
_WORTH_TELLING_S = 3.0
_AGAIN_S = 10.0
STDOUT = Console(soft_wrap=True)
if not STDOUT.is_terminal:
    STDOUT.width = max(STDOUT.width, _PIPED_WIDTH)  # without a terminal nothing is cut short
STDERR = Console(stderr=True)


def print_text(text: Text) -> None:
    """Print lines for people, wrapped between words on a terminal."""
    STDOUT.print(text, soft_wrap=not STDOUT.is_terminal)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """Print one JSON value on a line of its own."""
    STDOUT.file.write(json.dumps(value) + "\n")


def print_list(
    name: str, found: Sequence[A], table: Callable[[Sequence[A]], Table], *, as_json: bool, none: str | None = None
) -> None:
    """Print answers as JSON under a name, or as a table; `none` are the words where there are none."""
    from tenure_client import json_of  # noqa: PLC0415 - the commands that start the service do not need the client

    if as_json:
        print_json({name: [json_of(one) for one in found]})
    else:
        STDOUT.print(table(found) if found else none or f"no {name}")


def command_line() -> str:
    """Return the command that runs, as a shell takes it."""
    return shlex.join(["tenure", *sys.argv[1:]])


def check_writable(path: Path | None) -> None:
    """Raise InputError if the file, if there is one, cannot be written: now, and not after minutes of work."""
    if path is not None:
        check_place(path)


def write_report(path: Path, page: str) -> None:
    """Write a report's page, and tell where. Raises OutputLost if it cannot be: the work for it was done."""
    try:
        with whole_file(path) as part:
            part.write_text(page, encoding="utf-8")
    except InputError as error:
        raise OutputLost(str(error)) from error
    STDERR.print(f"report: {path}", highlight=False, soft_wrap=True)


@contextmanager
def interruptible(state: str | Callable[[], str]) -> Iterator[None]:
    """Say on standard error what is kept and how to go on, and leave, if Ctrl-C ends what is done meanwhile."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        told = state if isinstance(state, str) else state()
        STDERR.print(f"\ninterrupted: {told}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Return a function that takes the steps done and all steps: a bar on a terminal, else a line at times.

    Nothing is shown for work that is done within a few seconds.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    lines = _Lines(what)
    with Progress(*columns, console=STDERR, transient=True, disable=not STDERR.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if not STDERR.is_terminal:
                lines.tell(f"{done} of {total}")

        yield told


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on standard error that something is waited for: a spinner on a terminal, else a line at times."""
    if STDERR.is_terminal:
        with Progress(SpinnerColumn(), TextColumn(what), TimeElapsedColumn(), console=STDERR, transient=True) as shown:
            shown.add_task(what, total=None)
            yield
        return
    done, lines = Event(), _Lines(what)

    def tell() -> None:
        while not done.wait(1):
            lines.tell("")

    Thread(target=tell, name="waiting", daemon=True).start()
    try:
        yield
    finally:
        done.set()


class _Lines:
    """Writes a line on standard error after three seconds, and then every ten."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = monotonic()
        self._next = self._began + _WORTH_TELLING_S

    def tell(self, more: str) -> None:
        """Write the progress, if it is time again."""
        if (now := monotonic()) >= self._next:
            self._next = now + _AGAIN_S
            text = f"{self._what}: {more}{', ' if more else ''}{now - self._began:.0f} s"
            STDERR.print(text, markup=False, highlight=False, soft_wrap=True)
