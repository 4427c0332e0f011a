"""The processes of a job, as the kernel tells of them: their memory, the files they write, and if they stand."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_ANONYMOUS = re.compile(rb"^(?:Anonymous|ShmemPmdMapped):\s+(\d+) kB", re.MULTILINE)
_WRITING = os.O_WRONLY | os.O_RDWR


def tree_of(program: int) -> list[int]:
    """Return a program and its children, and theirs."""
    try:
        return [program, *(child.pid for child in psutil.Process(program).children(recursive=True))]
    except psutil.Error:
        return []


def is_stopped(program: int) -> bool:
    """Return True if a process stands at a signal."""
    with suppress(psutil.Error):
        return bool(psutil.Process(program).status() == psutil.STATUS_STOPPED)
    return False


def began_at(program: int) -> float | None:
    """Return when a process began, which tells it from a later one of the same number; None: there is none."""
    try:
        process = psutil.Process(program)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def memory_of(program: int) -> int:
    """Return the bytes of memory that an image of a program has to hold: what stands in no file."""
    total = 0
    for pid in tree_of(program):
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
            total += sum(int(found) for found in _ANONYMOUS.findall(rollup))
    return total * 1024


def outputs_of(program: int) -> dict[str, int]:
    """Return the plain files that a program has open for writing, with their sizes now."""
    return {str(path): path.stat().st_size for pid in tree_of(program) for path in _written(pid)}


def _written(pid: int) -> Iterator[Path]:
    with suppress(OSError):
        for handle in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names of numbers
            with suppress(OSError, IndexError):
                path = Path(f"/proc/{pid}/fd/{handle}").readlink()
                flags = int(Path(f"/proc/{pid}/fdinfo/{handle}").read_text().split("flags:")[1].split()[0], 8)
                if flags & _WRITING and path.is_absolute() and stat.S_ISREG(path.stat().st_mode):
                    yield path


def let_go_on(program: int) -> None:
    """Continue a program that stands, with all its children."""
    for pid in tree_of(program):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def kill_tree(program: int) -> None:
    """End a program with all its children at once."""
    for pid in tree_of(program):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def heeds(program: int, number: int) -> bool:
    """Return True if a program has a handler for a signal."""
    with suppress(OSError):
        for line in Path(f"/proc/{program}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def cpu_flags() -> str:
    """Return what the processor can, as words."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line.partition(":")[2].strip()
    return ""
