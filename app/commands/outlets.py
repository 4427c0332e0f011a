"""Standard output and standard error: whoever asked is told what is lost of an answer, and a service lives on."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from select import select
from typing import TextIO

from app.domain.inputs import output_lost


class _Outlet(io.FileIO):
    """A file that takes everything. What cannot be written is lost: the reader is gone, or the disk is full."""

    def write(self, data: object) -> int:
        """Write the data, or lose it; return how much of it is done with."""
        written = None
        with suppress(OSError):
            written = super().write(data)  # type: ignore[arg-type]
        return memoryview(data).nbytes if written is None else written  # type: ignore[arg-type]


class _Strict(io.FileIO):
    """A file that raises OutputLost once, if it cannot be written; what comes after that is lost without a word.

    The library that prints and the one that reads the words of a command end a process in ways of their own after an
    OSError of standard output; and what is left at the end of the interpreter would be tried once more.
    """

    _is_lost = False

    def write(self, data: object) -> int:
        """Write some of the data, and return how much."""
        if self._is_lost:
            return memoryview(data).nbytes  # type: ignore[arg-type]
        try:
            while (written := super().write(data)) is None:  # type: ignore[arg-type]
                select([], [self], [])  # whoever reads is slow, and the place does not wait by itself
        except OSError as error:
            self._is_lost = True
            raise output_lost("standard output", error, "the answer is lost, or not whole") from error
        return written


def tell_losses() -> None:
    """Have what is written to standard output raise OutputLost if it cannot be written, and standard error nothing.

    Streams that are not those of the process are left alone.
    """
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(sys.stdout, _Strict)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _lasting(sys.stderr)


def outlive_readers() -> None:
    """Have this process go on, and stop when it is told to, though nobody can read any more what it says.

    A terminal that is gone, or the end of a pipe's reader, is no reason to refuse a request or to lose a signal. A
    stream that was closed from the beginning becomes an empty one, so that no other file gets its number.
    """
    sys.stdout = _lasting(sys.stdout)
    sys.stderr = _lasting(sys.stderr)


def _lasting(stream: TextIO | None) -> TextIO:
    return _wrapped(stream, _Outlet, by_lines=True)


def _wrapped(stream: TextIO | None, kind: type[io.FileIO], *, by_lines: bool = False) -> TextIO:
    """Return a stream to the same place that stays open; for one that was closed, one that cannot be written."""
    if stream is None:
        closed = io.BufferedWriter(kind(os.open(os.devnull, os.O_RDONLY), "w", closefd=False))
        return io.TextIOWrapper(closed, "utf-8", line_buffering=by_lines)
    stream.flush()
    outlet = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    by_lines = by_lines or getattr(stream, "line_buffering", False)
    return io.TextIOWrapper(outlet, stream.encoding, stream.errors, line_buffering=by_lines)
