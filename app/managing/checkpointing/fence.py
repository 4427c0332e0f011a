"""Lets one run of a job write at a time: that which started last.

Slurm queues a job again when its node does not answer. The node may only be cut off from Slurm, and the job's program
may run on there. So each run writes into the job's folder, as a whole, that it is the current one, and looks at each
beat if it still is. One that is not ends its program. A new run waits until an earlier one must have looked, unless it
is known that nothing of it is left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.managing.checkpointing.folders import JobFolder
from app.managing.checkpointing.identity import JobIdentity
from app.managing.checkpointing.processes import began_at

BEAT_S = 2.0
"""A run looks at least so often if it is still the current one."""
FENCE_S = 3.0 * BEAT_S
"""A new run waits for so long before it begins where an earlier one may still write."""
LEFT, GONE = "left", "gone"
"""Notes with the name of a run: it has ended; its machine was destroyed, which the manager says."""
ONE_PROGRAM = "a job runs one program under tenure-job; put all into one script"
_LOOK_S = 0.1


class Superseded(Exception):
    """A newer run of the job is the current one, and this one must write nothing more."""


class TwoPrograms(Exception):
    """A job runs a second program under `tenure-job`."""


class Fence:
    """The place of one run among the runs of its job."""

    def __init__(self, folder: JobFolder, who: JobIdentity) -> None:
        self._folder, self._who, self.run = folder, who, who.run
        self._before: str | None = None
        self._is_taken = False

    def take(self) -> None:
        """Become the current run, and wait until no earlier one can write. Raise Superseded if a newer one writes.

        Raise OSError if that cannot be written down, and TwoPrograms if another program of this run is under way.
        """
        before = self._folder.current()
        if before.get("run") == self.run and before.get("pid") != os.getpid() and _is_alive(before):
            raise TwoPrograms(ONE_PROGRAM)
        self._before = str(before.get("run", self.run))
        if self._is_late(before):
            raise Superseded
        is_alone = self._is_gone(before)
        if self._folder.noted(LEFT) == self.run:  # of a program before this one in the same script
            self._folder.unnote(LEFT)
        self._write(is_alone=is_alone)
        self._is_taken = True
        if not is_alone:
            self._wait(before)
            self.check()
            self._write(is_alone=True)

    def take_late(self) -> None:
        """Become the current run where there was no room to write it down before. Raise OSError if there is none."""
        if not self._is_taken and self._folder.current().get("run", self.run) in {self._before, self.run}:
            self._write(is_alone=True)
            self._is_taken = True

    def may_go_without(self) -> bool:
        """Tell if no earlier run can write, so that this one need not be the current one to begin."""
        return self._is_gone(self._folder.current())

    def is_ours(self) -> bool:
        """Tell if no newer run has begun. What cannot be read is no newer run."""
        known = {self.run} if self._is_taken else {self.run, self._before}
        return self._folder.current().get("run", self.run) in known

    def check(self) -> None:
        """Raise Superseded if a newer run has begun."""
        if not self.is_ours():
            raise Superseded

    def leave(self) -> None:
        """Note that nothing of this run is left. Raise OSError if that cannot be written."""
        if self._folder.current().get("pid") == os.getpid() and self.is_ours():
            self._folder.note(LEFT, self.run)

    def _write(self, *, is_alone: bool) -> None:
        self._folder.put_current(
            {
                "run": self.run,
                "started": self._who.started,
                "node": os.environ.get("SLURMD_NODENAME", ""),
                "at": time.time(),
                "is_alone": is_alone,
                "host": _host(),
                "pid": os.getpid(),
                "pid_began_at": began_at(os.getpid()),
            }
        )

    def _is_gone(self, before: Mapping[str, Any]) -> bool:
        """Tell if nothing can write any more of a run, and of those before it."""
        if not before:
            return True
        if before.get("is_alone") is not True:
            return False
        run = str(before.get("run"))
        if run in {self.run, self._folder.noted(LEFT), self._folder.noted(GONE)}:
            return True
        return before.get("host") == _host() != "" and not _is_alive(before)

    def _wait(self, before: Mapping[str, Any]) -> None:
        deadline_s = time.monotonic() + FENCE_S
        while time.monotonic() < deadline_s and not self._is_gone(before):
            time.sleep(_LOOK_S)

    def _is_late(self, before: Mapping[str, Any]) -> bool:
        """Tell if the current run was started by Slurm after this one, and beats."""
        started = before.get("started")
        if not (isinstance(started, int) and self._who.started and started > self._who.started):
            return False
        at, deadline_s = self._folder.running().get("at"), time.monotonic() + FENCE_S
        while time.monotonic() < deadline_s and not self._is_gone(before):
            if self._folder.running().get("at") != at:
                return True
            time.sleep(_LOOK_S)
        return False


def _is_alive(before: Mapping[str, Any]) -> bool:
    """Tell if the process that wrote of a run is one of this machine, and is there."""
    pid = before.get("pid")
    return before.get("host") == _host() and isinstance(pid, int) and began_at(pid) == before.get("pid_began_at")


def _host() -> str:
    """Return the running kernel and its namespace of processes; empty: it is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""
