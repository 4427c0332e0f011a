"""A `tenure` process whose clock can be stepped while it runs, and from which a mend can be taken out for a trial.

`python -m faults.process serve` is `tenure serve` with the composition point's clock replaced by one that adds an
offset: eight bytes in the file that FAULTS_CLOCK names, in microseconds. FAULTS_DEFECT names a defect of `defects.py`.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app import cli, wiring

_OFFSET = struct.Struct("<q")


class SteppedClock:
    """The machine's clock and an offset that another process may change at any time."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._offset = mmap.mmap(opened.fileno(), _OFFSET.size)

    def offset_us(self) -> int:
        return int(_OFFSET.unpack(self._offset[:])[0])

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.offset_us()

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(microseconds=self.offset_us())


def write_offset(file: Path, offset_us: int) -> None:
    """Step the clock of the process that reads the file."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(_OFFSET.pack(offset_us))


def main() -> None:
    """Run the `tenure` command with that clock."""
    clock = SteppedClock(Path(os.environ["FAULTS_CLOCK"]))
    wiring.now_us = clock.now_us
    wiring._now = clock.now
    defect = os.environ.get("FAULTS_DEFECT")
    if defect:
        from faults.defects import bring_back  # noqa: PLC0415 - it knows the insides of the service

        bring_back(defect)
    cli.main()


if __name__ == "__main__":
    main()
