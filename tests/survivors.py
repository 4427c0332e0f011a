"""Processes that a run of the tests has started and left behind."""

from __future__ import annotations

import os
import time
from uuid import uuid4

import psutil

MARK = "PYTEST_STARTED_BY"
"""Every process has it from the one that started it, whoever has adopted it since."""
_PATIENCE_S = 10.0


def mark() -> str:
    """Mark all processes that this one starts from now on."""
    os.environ[MARK] = str(uuid4())
    return os.environ[MARK]


def survivors(marked: str) -> list[psutil.Process]:
    """Those that still run after a while, this process not among them."""
    give_up_at = time.monotonic() + _PATIENCE_S
    while (found := [process for process in psutil.process_iter() if _is_left(process, marked)]) and (
        time.monotonic() < give_up_at
    ):
        time.sleep(0.1)
    return found


def kill(processes: list[psutil.Process]) -> list[str]:
    """End them; what each was, and which test had started it."""
    told = [_words(process) for process in processes]
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return [words for words in told if words]


def _is_left(process: psutil.Process, marked: str) -> bool:
    try:
        ended = process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE
        return not ended and process.environ().get(MARK) == marked
    except psutil.Error:
        return False


def _words(process: psutil.Process) -> str:
    try:
        return f"{' '.join(process.cmdline())} (of {process.environ().get('PYTEST_CURRENT_TEST', 'no test')})"
    except psutil.Error:
        return ""
