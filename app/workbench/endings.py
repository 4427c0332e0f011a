"""Lets a command that is told to end remove what it has not finished. Such signals would end Python at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
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


def end_by_signal(code: object) -> None:
    """End this process by SIGQUIT if that gave the exit code, so that it leaves a core where the system keeps them."""
    if code == _SIGNALLED + signal.SIGQUIT:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGQUIT)


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
        os._exit(1)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(_SIGNALLED + number)
