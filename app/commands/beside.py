"""A worker in its own process beside the API. It is watched, and started again when it ends."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Self

import app
from app.platform.pauses import Pauses

logger = logging.getLogger(__name__)

COMMAND = Path(app.__file__).parent.parent / "tenure_command.py"
"""By its path, so that no folder and no variable of the caller's decides which program that is."""
READY = "ready"
FAILED = "failed: "
"""A worker writes these to standard output for its parent process."""

_STOP_S = 30.0
_LOOK_S = 0.05


class WorkerBeside:
    """A worker process for the length of a block; its work never delays an answer.

    It has its own process group, so that Ctrl-C reaches this process alone, which then stops the worker in order. The
    worker reads its standard input: there it gets its secrets, and it leaves when this process is killed and the input
    ends. `on_ready` is called from another thread whenever a worker is ready. Once `at_once` is true, leaving the block
    waits for nothing.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        secrets: Mapping[str, str],
        on_ready: Callable[[], None],
        at_once: Callable[[], bool],
    ) -> None:
        self._environment = environment
        self._secrets = secrets
        self._on_ready = on_ready
        self._at_once = at_once
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._watch = threading.Thread(target=self._keep_one, name="worker-watch", daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._stopping.set()
            process = self._process
        if process is None:
            return
        process.terminate()
        give_up_at = monotonic() + _STOP_S
        while process.poll() is None and monotonic() < give_up_at and not self._at_once():
            sleep(_LOOK_S)
        process.kill()
        process.wait()

    def _keep_one(self) -> None:
        pauses = Pauses()
        while (process := self._start()) is not None:
            reason, ready_s = self._follow(process)
            pause_s = pauses.after(ready_s)
            if self._stopping.is_set():
                return
            logger.error("the worker ended: %s; it is started again in %g s", reason, pause_s)
            if self._stopping.wait(pause_s):
                return

    def _start(self) -> subprocess.Popen[str] | None:
        """Start a worker; return None if this process is stopping."""
        command = [sys.executable, "-P", str(COMMAND), "worker", "--leave-with-parent"]
        with self._changing:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                env=self._environment,
                process_group=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            self._tell_secrets(self._process)
            return self._process

    def _tell_secrets(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, which is noticed in a moment
            process.stdin.write(json.dumps(dict(self._secrets)) + "\n")
            process.stdin.flush()

    def _follow(self, process: subprocess.Popen[str]) -> tuple[str, float]:
        """Read what the worker reports until it ends; return the reason for its end, and for how long it was ready."""
        reason, ready_at = "", None
        assert process.stdout is not None
        for line in process.stdout:
            if line.rstrip() == READY:
                ready_at = monotonic()
                self._on_ready()
            elif line.startswith(FAILED):
                reason = line.removeprefix(FAILED).rstrip()
        status = process.wait()
        ready_s = 0.0 if ready_at is None else monotonic() - ready_at
        return reason or (f"signal {-status}" if status < 0 else f"exit status {status}"), ready_s


def hear_secrets() -> None:
    """Read the secrets that `_tell_secrets` wrote into this process's variables, not into its environment."""
    line = b""
    while not line.endswith(b"\n") and (
        byte := os.read(sys.stdin.fileno(), 1)
    ):  # no more than the line: the end of the input is watched later
        line += byte
    os.environ.update(json.loads(line or b"{}"))


def report(line: str) -> None:
    """Send a line to the process that started this worker."""
    sys.stdout.write(" ".join(line.split()) + "\n")
    sys.stdout.flush()
