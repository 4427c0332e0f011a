"""The processes of a lab: started apart from the one that starts them, and found again by what a file says of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil


class LabProcesses:
    """Processes by name. They go on when the one that started them ends; `folder`/processes.json names them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "processes.json"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        known = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._known: dict[str, tuple[int, float]] = {name: tuple(one) for name, one in known.items()}

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str], user: str | None = None
    ) -> None:
        """Start a process as the head of a session of its own; its output goes to `folder`/log."""
        (self._folder / "log").mkdir(exist_ok=True)
        with (self._folder / "log" / f"{name}.log").open("ab") as output:
            child = subprocess.Popen(
                [str(word) for word in command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=user,
                cwd="/",
            )
        self._children[name] = child
        self._known[name] = child.pid, psutil.Process(child.pid).create_time()
        self._write()

    def names(self) -> list[str]:
        return [*self._known]

    def runs(self, name: str) -> bool:
        return self._found(name) is not None

    def send(self, name: str, number: int) -> None:
        """Send a signal to a process and to those of its session."""
        found = self._found(name)
        if found is not None:
            with suppress(ProcessLookupError):
                os.killpg(found.pid, number)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a process with those of its session, and wait until it is gone."""
        found = self._found(name)
        self.send(name, number)
        child = self._children.pop(name, None)
        if child is not None:
            child.wait(60)
        elif found is not None:
            psutil.wait_procs([found], timeout=60)
        self._known.pop(name, None)
        self._write()

    def output(self, name: str) -> str:
        return (self._folder / "log" / f"{name}.log").read_text(errors="replace")[-3000:]

    def resident(self) -> dict[str, int]:
        """Return the resident memory of each in bytes, with the processes that it started.

        Pages that processes share, as PostgreSQL's do, are counted once.
        """
        return {name: sum(_memory(one) for one in self._family(name)) for name in self._known}

    def processor_s(self) -> float:
        """Return the processor time that all of them have taken so far."""
        return sum(self.processor_s_of().values())

    def processor_s_of(self) -> dict[str, float]:
        """Return the processor time that each has taken so far, with the processes that it started."""
        return {name: sum(_processor_s(one) for one in self._family(name)) for name in self._known}

    def processor_since(self, before_s: Mapping[str, float]) -> str:
        """Tell the processor time since then by parts: computes together, others with more than a second."""
        taken_s: Counter[str] = Counter()
        for name, seconds in self.processor_s_of().items():
            taken_s["computes" if name.startswith("compute-") else name] += round(seconds - before_s.get(name, 0.0))
        told = ", ".join(f"{name} {seconds}" for name, seconds in taken_s.most_common() if seconds >= 1)
        return f"{sum(taken_s.values())} s: {told}"

    def _family(self, name: str) -> Iterator[psutil.Process]:
        found = self._found(name)
        if found is not None:
            with suppress(psutil.Error):
                yield found
                yield from found.children(recursive=True)

    def _found(self, name: str) -> psutil.Process | None:
        pid, begun = self._known.get(name, (0, 0.0))
        try:
            process = psutil.Process(pid)
            is_it = abs(process.create_time() - begun) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return process if is_it else None

    def _write(self) -> None:
        self._file.write_text(json.dumps(self._known))


def until(true: Callable[[], object], within_s: float, otherwise: Callable[[], str], pause_s: float = 0.1) -> None:
    """Wait until something is true. Raises AssertionError with what `otherwise` says."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(pause_s)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _memory(process: psutil.Process) -> int:
    try:
        is_shared = process.name() == "postgres"
        return process.memory_full_info().pss if is_shared else process.memory_info().rss
    except psutil.Error:
        return 0


def _processor_s(process: psutil.Process) -> float:
    try:
        taken = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(taken.user + taken.system + taken.children_user + taken.children_system)
