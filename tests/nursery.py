"""Processes of the service that are forked from one that has loaded it already: a start takes a tenth of the time.

They are processes like any other: they are killed, stopped and waited for. Only how a program is loaded is not tried by
them, so the tests of starting start programs as a person would.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

LONGEST = 1 << 20
"""Bytes of an order, at most."""
_PROGRAM = Path(__file__).with_name("nursery_process.py")
_LOOK_S = 0.01
_OURS = ("TENURE_", "OTEL_", "PG", "PYTEST_")
"""The first letters of the variables that mean nothing to a process before `tenure` itself reads them."""


class Forked:
    """A forked process, with the methods of `subprocess.Popen`. `look` gives its exit status, None while it runs."""

    def __init__(self, pid: int, look: Callable[[int], int | None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._look = look
        self._looking = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        with self._looking:
            if self.returncode is None:
                self.returncode = self._look(self.pid)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended. Raises TimeoutExpired after so many seconds."""
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if give_up_at is not None and time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired(["tenure"], timeout or 0.0)
            time.sleep(_LOOK_S)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        with self._looking:
            if self.returncode is None and (status := self._look(self.pid)) is not None:
                self.returncode = status
            elif self.returncode is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """A process that has loaded the service, and starts others."""

    def __init__(self) -> None:
        self._line, theirs = line()
        self._asking = threading.Lock()
        self._environment = dict(os.environ)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), str(number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
                process_group=0,  # Ctrl-C is for the process that asks: it ends what it has started
            )

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Tell whether these variables differ from the nursery's own in nothing that acts before `tenure` does."""
        changed = {name for name, value in environment.items() if self._environment.get(name) != value}
        changed |= self._environment.keys() - environment.keys()
        return all(name.startswith(_OURS) for name in changed)

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdout: IO[Any],
        stderr: IO[Any],
        folder: Path | None = None,
    ) -> Forked:
        """Start `tenure` with these arguments in this folder, with an empty input, and outputs to these files."""
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
        }
        files = [stdout.fileno(), stderr.fileno()]
        return Forked(self._asked(order, files), lambda pid: self._asked({"pid": pid}, []))

    def end(self) -> None:
        """End it; what it has started goes on."""
        self._line.close()
        self._process.wait()

    def _asked(self, order: Mapping[str, object], files: Sequence[int]) -> Any:
        with self._asking:
            socket.send_fds(self._line, [json.dumps(order).encode()], files)
            answer = self._line.recv(LONGEST)
        assert answer, "the nursery has ended"
        return json.loads(answer)


@cache
def nursery() -> Nursery:
    """The one of this process, made when it is first asked for."""
    return Nursery()


def end_nursery() -> None:
    """End the one of this process if there is one."""
    if nursery.cache_info().currsize:
        nursery().end()
        nursery.cache_clear()


def line() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a line for orders."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
