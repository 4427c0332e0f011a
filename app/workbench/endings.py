"""Lets a command that is told to end remove what it has not finished. SIGTERM and SIGHUP would end Python at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from os import _exit
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_ENDS_S = 5.0
_SIGNALLED = 128


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise SystemExit within the block where a signal would end the process. Other handlers are left as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def end_children() -> None:
    """End the processes that this one has begun with `multiprocessing`; each has some seconds to remove its files."""
    children = active_children()
    for child in children:
        child.terminate()
    for child in children:
        child.join(_ENDS_S)
        child.kill()


def end_with_parent() -> None:
    """End this process when the one that began it is gone: nobody waits for its work any more."""
    threading.Thread(target=_wait_for_parent, name="ends-with-parent", daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        _exit(1)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(_SIGNALLED + number)
