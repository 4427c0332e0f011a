"""The command line under faults: it kills itself at a call to the service, to Slurm or to the machines.

    echo '{"arguments": ["cluster", "run", "FILE"], "kill_at": "deed:7", "points": "P", "log": "L"}' |
        python -m benchmarks.clusters.killed

Each request is two points: before it is sent, and after its answer. Each program of the host that is run is three:
before it begins, while it runs, and after it ended; a daemon that is started has the first two. Each process that is
killed is two. `any:7` is the seventh point; `deed:7` the seventh of those that change something. The point is written
to a file first. The service and its commands know nothing of this.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

_CHANGING = {"update", "delete", "release", "requeue", "add", "del", "set", "exec"}
_ALWAYS = {"scancel", "unshare", "nsenter", "/usr/sbin/munged"}


class Points:
    """Counts points, and ends this process at one of them, as `kill -9` does."""

    def __init__(self, at: str, log: Path) -> None:
        self._kind, _, number = at.partition(":")
        self._left, self._log = int(number), log
        self._pid = os.getpid()

    def pass_by(self, name: str, *, is_deed: bool) -> None:
        """Pass a point, or die there."""
        if self._kind == "deed" and not is_deed:
            return
        self._left -= 1
        if self._left == 0:
            with self._log.open("a") as log:
                log.write(f"{name}\n")
            os.kill(self._pid, signal.SIGKILL)


def _is_deed(arguments: list[str]) -> bool:
    return arguments[0] in _ALWAYS or not _CHANGING.isdisjoint(arguments[1:5])


def _named(arguments: list[str]) -> str:
    """Return a program and what it is told to do, without names of nodes and jobs."""
    return " ".join(word for word in arguments[:4] if word.isalpha() or word == arguments[0])


def install(points: Points) -> None:
    """Set the points around the programs, the requests and the kills of this process."""
    whole_run, whole_send, whole_kill = subprocess.run, httpx2.Client.send, os.kill

    class Begun(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, arguments: list[str], **named: object) -> None:
            name, is_deed = _named(arguments), _is_deed(arguments)
            points.pass_by(f"before {name}", is_deed=is_deed)
            super().__init__(arguments, **named)  # type: ignore[call-overload]
            points.pass_by(f"in {name}", is_deed=is_deed)

    def run(arguments: list[str], **named: object) -> object:
        done = whole_run(arguments, **named)  # type: ignore[call-overload]
        points.pass_by(f"after {_named(arguments)}", is_deed=_is_deed(arguments))
        return done

    def send(client: httpx2.Client, request: httpx2.Request, **named: object) -> httpx2.Response:
        name = " ".join([request.method, *request.url.path.split("/")[4:5]])
        is_deed = request.method != "GET"
        points.pass_by(f"before {name}", is_deed=is_deed)
        answer = whole_send(client, request, **named)  # type: ignore[arg-type]
        points.pass_by(f"after {name}", is_deed=is_deed)
        return answer

    def kill(pid: int, number: int) -> None:
        points.pass_by("before kill", is_deed=True)
        whole_kill(pid, number)
        points.pass_by("after kill", is_deed=True)

    subprocess.Popen, subprocess.run = Begun, run  # type: ignore[misc,assignment]
    httpx2.Client.send = send  # type: ignore[method-assign,assignment]
    os.kill = kill


def bear() -> None:
    """Fork a child for each line of JSON: arguments, kill_at, points, log. Tell its process id, and later its end.

    So a manager begins at once: it has nothing to import. It is a process of its own all the same.
    """
    import app.cli  # noqa: F401, PLC0415 - for the children

    for line in sys.stdin:
        asked = json.loads(line)
        if not (pid := os.fork()):
            _live(asked)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


def _live(asked: dict[str, Any]) -> None:
    """Be `tenure` with these arguments, and end."""
    try:
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(file, number)
        sys.argv = ["tenure", *asked["arguments"]]
        main_of(asked["kill_at"], asked["points"])
        sys.stdout.flush()
    finally:
        os._exit(1)


def main_of(kill_at: str, points: str) -> None:
    """Be `tenure`, but for the end."""
    from app.cli import main as tenure  # noqa: PLC0415 - after the points are set

    if kill_at:
        install(Points(kill_at, Path(points)))
    tenure()


if __name__ == "__main__":
    bear()
