"""The compiled functions that a worker calls for tables and plans, made ready beside its work.

After an installation they are compiled, which takes a minute or more. A process of its own does that, with low
priority: in the worker's own process, jobs, data and peers would hardly have a turn meanwhile.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from app.commands.beside import COMMAND
from app.engine.compiled import is_all_compiled
from app.processes.warming import warm_up_worker

logger = logging.getLogger(__name__)

_AFTER_S = 5.0
"""A worker that begins has the processor for what waits for it: states to load, words to peers, stops."""
_TOLD_AGAIN_S = 10.0
_WORTH_TELLING_S = 3.0
_LOADS = Event()
"""Set while this process loads compiled functions, or compiles them itself, and has little time for anything else."""


def is_busy() -> bool:
    """Return True while this process has little time, as for reading what the database says."""
    return _LOADS.is_set()


class Preparation:
    """Makes compiled functions ready in a thread, within a block. It is abandoned when the block ends.

    `is_wanted`: False where other machines compute. `is_over`: recomputations may begin, which would compile here.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._is_needed = is_wanted and not is_all_compiled()
        self._changing, self._leaving, self._over = Lock(), Event(), Event()
        self._compiler: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Preparation:
        if not self._is_needed:
            self._over.set()
        if self._is_wanted:
            Thread(target=self._run, name="preparing", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._leaving.set()
            if self._compiler is not None:
                self._compiler.kill()

    def is_over(self) -> bool:
        """Return True if nothing is left to compile, or nobody else compiles it."""
        return self._over.is_set()

    def _run(self) -> None:
        if self._leaving.wait(_AFTER_S):
            return
        try:
            with _told():
                if self._is_needed:
                    self._compile_beside()
                if not self._leaving.is_set():
                    _load()
        finally:
            self._over.set()

    def _compile_beside(self) -> None:
        command = [sys.executable, "-P", str(COMMAND), "worker", "--compile-only"]
        with self._changing:
            if self._leaving.is_set():
                return
            self._compiler = subprocess.Popen(  # noqa: S603 - this program itself
                command, stdin=subprocess.DEVNULL, start_new_session=True
            )
        if (code := self._compiler.wait()) and not self._leaving.is_set():
            logger.warning("the process that compiles the forecast ended with %s; this one compiles it", code)


def _load() -> None:
    _LOADS.set()
    try:
        warm_up_worker()
    finally:
        _LOADS.clear()


@contextmanager
def _told() -> Iterator[None]:
    """Log that it takes long: a first table waits for it."""
    done, began = Event(), monotonic()
    Thread(target=_tell, args=(done, began), name="compiling", daemon=True).start()
    try:
        yield
    finally:
        done.set()
    if (took_s := monotonic() - began) >= _WORTH_TELLING_S:
        logger.info("forecast compiled", extra={"took_s": round(took_s, 1)})


def _tell(done: Event, began: float) -> None:
    pause_s = _WORTH_TELLING_S
    while not done.wait(pause_s):
        passed = {"passed_s": round(monotonic() - began)}
        logger.info("compiling the forecast, which may take some minutes", extra=passed)
        pause_s = _TOLD_AGAIN_S
