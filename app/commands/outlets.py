"""Standard output and standard error of a process that runs for long, and that outlives whoever reads them."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class _Outlet(io.FileIO):
    """A file that takes everything. What cannot be written is lost: the reader is gone, or the disk is full."""

    def write(self, data: object) -> int:
        """Write the data, or lose it; return how much of it is done with."""
        written = None
        with suppress(OSError):
            written = super().write(data)  # type: ignore[arg-type]
        return memoryview(data).nbytes if written is None else written  # type: ignore[arg-type]


def outlive_readers() -> None:
    """Have this process go on, and stop when it is told to, though nobody can read any more what it says.

    A terminal that is gone, or the end of a pipe's reader, is no reason to refuse a request or to lose a signal. A
    stream that was closed from the beginning becomes an empty one, so that no other file gets its number.
    """
    sys.stdout = _lasting(sys.stdout)
    sys.stderr = _lasting(sys.stderr)


def _lasting(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w")  # noqa: PTH123 - for as long as the process lives
    stream.flush()
    outlet = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(outlet, stream.encoding, stream.errors, line_buffering=True)
