"""Tells what a process does until it is ready, in lines: a spinner would run into those of the log."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from app.commands.output import STDOUT

logger = logging.getLogger(__name__)

_WORTH_TELLING_S = 3.0
_AGAIN_S = 10.0


class Steps:
    """Tells steps and other news on standard output, or in the log if the log is JSON."""

    def __init__(self, *, to_log: bool) -> None:
        self._to_log = to_log

    def say(self, text: str) -> None:
        """Print a line."""
        if self._to_log:
            logger.info(text)
        else:
            self.show(text)

    def show(self, text: str) -> None:
        """Print a text for whoever started the process, never to a log: it may hold a token."""
        STDOUT.print(text, markup=False, highlight=False)

    def stopping(self, more: str = "") -> None:
        """Say that the process stops. Safe in a signal handler."""
        if self._to_log:
            return
        with suppress(OSError):  # nobody reads it any more
            os.write(sys.stdout.fileno(), f"\nstopping{more}\n".encode())

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say what is being done, and again at times while it lasts."""
        began = monotonic()
        self.say(what)
        with self._reminders(what, began):
            yield

    @contextmanager
    def _reminders(self, what: str, began: float) -> Iterator[None]:
        done = threading.Event()

        def remind() -> None:
            while not done.wait(_AGAIN_S):
                self.say(f"{what}{_elapsed(began)}")

        threading.Thread(target=remind, name="reminders", daemon=True).start()
        try:
            yield
        finally:
            done.set()


def _elapsed(began: float) -> str:
    elapsed_s = monotonic() - began
    return f" ({elapsed_s:.0f} s)" if elapsed_s >= _WORTH_TELLING_S else ""
