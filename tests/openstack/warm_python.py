"""A Python of OpenStack's with its modules imported: what tests run there by the hundred starts in no time.

Each program is a process of its own. Its imports are those of all others, so how it starts is tested elsewhere
(`plugin_start.py`, the walk through OpenStack).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SERVER = Path(__file__).with_name("warm_start.py")


class WarmProcess:
    """A program that runs."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self.pid = int(caller.recv(100))

    def wait(self, most_s: float | None = None) -> int:
        """Return its exit code."""
        self._caller.settimeout(most_s)
        with self._caller:
            return int(self._caller.recv(100))


class WarmPython:
    """A process of this Python that has imported the modules, and called a function of those with one after a colon.

    `environment`: what it and all programs have.
    """

    def __init__(self, python: Path, modules: Sequence[str], **environment: str) -> None:
        self.python, self._environment = python, environment
        self._folder = tempfile.TemporaryDirectory(prefix="tenure-warm-")
        self._socket = f"{self._folder.name}/socket"
        self._process = subprocess.Popen(
            [python, _SERVER, self._socket, *modules],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def start(
        self, program: Path, words: Sequence[str], environment: dict[str, str], files: tuple[int, int, int]
    ) -> WarmProcess:
        """Start a file of Python with these descriptors as its input, output and errors."""
        own = {"program": str(program), "words": words, "environment": environment | self._environment}
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        caller.connect(self._socket)
        socket.send_fds(caller, [json.dumps(own).encode()], [*files])
        return WarmProcess(caller)

    def run(self, program: Path, words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a file of Python without input, and return what it said."""
        with (
            Path(os.devnull).open() as nothing,
            tempfile.TemporaryFile("w+") as output,
            tempfile.TemporaryFile("w+") as errors,
        ):
            files = nothing.fileno(), output.fileno(), errors.fileno()
            code = self.start(program, words, environment, files).wait()
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess([str(program), *words], code, output.read(), errors.read())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._folder.cleanup()
