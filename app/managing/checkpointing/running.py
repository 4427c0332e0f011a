"""Runs a job's program so that it can be checkpointed, and goes on from its last checkpoint after its machine was lost.

A restore that is refused is told, its checkpoint is not tried again, and the one before it is taken, down to the
program's beginning. After three refusals without a success between them the job is held: a person has to look.

Only one run of a job writes at a time (`fence`), into a folder that is that job's (`starting`). That nothing can be
written into the folder is told once it can, and ends no program.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from app.managing.checkpointing.drivers import (
    DRIVERS,
    CheckpointDriver,
    RestoreRefused,
    StartedProgram,
    lacking_flags,
)
from app.managing.checkpointing.fence import BEAT_S, ONE_PROGRAM, Fence, Superseded, TwoPrograms
from app.managing.checkpointing.folders import BrokenImage, Busy, JobFolder, Manifest
from app.managing.checkpointing.owing import Owed
from app.managing.checkpointing.processes import began_at, heeds, is_stopped, kill_tree, memory_of
from app.managing.checkpointing.starting import NoRoom, identified, own, take
from app.managing.programs import ProgramFailed, run

MOST_REFUSALS = 3
_BEAT_SHARE = 0.125
"""A young job says how it does after so much of its life: its memory grows fast, and a prediction rests on it."""
_LOOK_S = 0.2
_EARLY_S = 10.0
"""A program that dies so soon of a fault, after it was restored, was not restored well."""
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS)
_DONE, _AGAIN, _REFUSALS, _OUTPUT = "done", "again", "refusals", "output"
_HELD_S = 60.0
_WRITER_ENDS_S = 30.0
_DONE_S = 10.0
"""For so long the end of a program waits for room for the note of it."""


class JobRun:
    """One run of a job on a machine."""

    def __init__(self, folder: JobFolder, driver: CheckpointDriver, command: Sequence[str]) -> None:
        self._folder, self._driver, self._command = folder, driver, list(command)
        self._who, self._owed = identified(folder), Owed(folder)
        self._fence = Fence(folder, self._who)
        self._program, self._from, self._began_s = 0, 0, 0.0
        self._is_ending = self._is_troubled = False

    def run(self) -> int:
        """Run the program to its end; return its exit code. Raise Superseded if a newer run of the job began."""
        try:
            own(self._folder, self._who, self._owed)
            if (ended := self._ended_before()) is not None:
                return ended
            without = take(self._folder, self._fence)
        except NoRoom as error:
            self._hold(str(error))
        if (ended := self._ended_before()) is not None:  # meanwhile
            return ended
        self._open(without)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        while True:
            status = self._attend(self._begin())
            self._fence.check()
            if self._folder.noted(_AGAIN) is not None:
                self._folder.unnote(_AGAIN)
            elif not (self._is_badly_restored(status) or self._was_hurt(status)):
                return self._close(status)

    def _ended_before(self) -> int | None:
        """Return the exit code of a program that had ended in an earlier run; it is not run again."""
        done = self._folder.noted(_DONE)
        if done is None:
            return None
        run_of, _, code = done.partition(" ")
        if run_of == self._fence.run:
            raise TwoPrograms(ONE_PROGRAM)
        return int(code)

    def _open(self, without: str) -> None:
        """Clear what an earlier run left unfinished, and remember where the output began at the very first run.

        without: why the job runs without checkpoints; empty: it does not.
        """
        for generation in self._folder.unpublished():
            self._folder.drop(generation)
            self._owed.tell(
                "checkpoint_failed",
                generation=generation,
                why="abandoned",
                error="the machine went before it was published",
            )
        self._folder.unnote(_AGAIN)
        if self._folder.noted(_OUTPUT) is None:
            sys.stdout.flush()
            path = Path("/proc/self/fd/1").readlink()
            size = path.stat().st_size if path.is_file() else 0
            self._owed.note(_OUTPUT, f"{size} {path}")
        if why := without or self._driver.missing():
            if self._folder.published():
                self._hold(f"there are checkpoints that cannot be restored here: {why}")
            sys.stderr.write(f"tenure-job: without checkpoints: {why}\n")
            self._owed.tell("checkpoints_impossible", error=why)
            self._driver = DRIVERS["none"]

    def _begin(self) -> StartedProgram:
        """Bring the program back from its newest good checkpoint, or start it."""
        before = self._folder.running()
        self._fence.check()
        for generation in self._folder.published():
            self._hold_if_hopeless()
            try:
                started, manifest = self._restored(generation)
            except (RestoreRefused, BrokenImage, OSError) as error:
                self._refused(generation, str(error))
                continue
            lost_s = 0.0 if manifest.is_stopped else max(float(before.get("at", 0.0)) - manifest.at, 0.0)
            self._owed.tell("job_restored", generation=generation, node=_node(), lost_s=round(lost_s, 3))
            self._from = generation
            return started
        self._hold_if_hopeless()
        self._to_its_beginning()
        if self._who.restart or before:
            self._owed.tell("job_from_start", node=_node())
        self._from = 0
        return self._driver.start(self._command, self._folder.path)

    def _restored(self, generation: int) -> tuple[StartedProgram, Manifest]:
        manifest = self._folder.checked(generation)
        if manifest.driver != self._driver.name:
            raise BrokenImage(f"it was taken by the driver {manifest.driver}, and {self._driver.name} runs here")
        if lacking := lacking_flags(manifest.flags):
            raise BrokenImage(f"this processor lacks {' '.join(lacking[:5])}")
        for name, size in manifest.outputs.items():
            if not Path(name).exists() or Path(name).stat().st_size < size:
                raise BrokenImage(f"{name} has less in it than when the checkpoint was taken")
        self._fence.check()
        for name, size in manifest.outputs.items():
            os.truncate(name, size)
        return self._driver.restore(self._folder.images(generation), self._command, self._folder.path), manifest

    def _refused(self, generation: int, why: str) -> None:
        try:
            self._folder.refuse(generation, why)
            self._folder.note(_REFUSALS, str(self._refusals() + 1))
        except OSError as error:
            self._hold(f"checkpoint {generation} cannot be restored, and that cannot be written down: {error}")
        self._owed.tell("restore_failed", generation=generation, node=_node(), error=why)
        sys.stderr.write(f"tenure-job: checkpoint {generation} cannot be restored: {why}\n")

    def _refusals(self) -> int:
        return int(self._folder.noted(_REFUSALS) or 0)

    def _hold_if_hopeless(self) -> None:
        """Hold the job after too many refusals. A release begins a new count."""
        if self._refusals() >= MOST_REFUSALS:
            self._owed.note(_REFUSALS, "0")
            self._hold(f"{MOST_REFUSALS} checkpoints in a row could not be restored")

    def _hold(self, why: str) -> NoReturn:
        """Hold the job, and wait until Slurm ends this run."""
        self._owed.tell("job_held", node=_node(), error=why)
        sys.stderr.write(f"tenure-job: the job is held: {why}\n")
        with suppress(OSError):
            self._fence.leave()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with suppress(ProgramFailed):
            run(["scontrol", "requeuehold", self._folder.job], {"SLURM_CONF": os.environ.get("SLURM_CONF", "")})
            time.sleep(_HELD_S)
        raise RestoreRefused(f"{why}, and the job could not be held")

    def _to_its_beginning(self) -> None:
        """Cut off what an earlier run wrote, so that no line is there twice."""
        self._fence.check()
        size, _, path = (self._folder.noted(_OUTPUT) or "0 ").partition(" ")
        if path and Path(path).is_file() and Path(path).stat().st_size > int(size):
            os.truncate(path, int(size))

    def _attend(self, started: StartedProgram) -> int:
        """Wait for the end of the program, and say how it does meanwhile; return its status."""
        self._program, self._began_s = started.program, time.monotonic()
        beaten_s = 0.0
        while True:
            child, status = os.waitpid(started.child, os.WNOHANG)
            if child:
                return status
            ran_s = time.monotonic() - self._began_s
            if time.monotonic() - beaten_s > min(BEAT_S, ran_s * _BEAT_SHARE):
                beaten_s = time.monotonic()
                self._look()
            time.sleep(_LOOK_S)

    def _look(self) -> None:
        """Say how the program does, and end it at once if a newer run began. What cannot be written waits."""
        if not self._fence.is_ours():
            kill_tree(self._program)
            with suppress(OSError):
                self._folder.tell("job_superseded", node=_node(), error="a newer run of it has begun")
            raise Superseded
        try:
            self._fence.take_late()
            self._beat()
            if self._from and time.monotonic() - self._began_s > _EARLY_S:
                self._folder.unnote(_REFUSALS)
        except OSError as error:
            if not self._is_troubled:
                self._owed.tell("checkpoint_failed", node=_node(), why="beat", error=str(error))
            self._is_troubled = True
        else:
            self._is_troubled = not self._owed.pay()

    def _beat(self) -> None:
        array = os.environ.get("SLURM_ARRAY_JOB_ID")
        task = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID')}" if array else self._folder.job
        self._folder.beat(
            {
                "at": time.time(),
                "queued_as": task,
                "node": _node(),
                "run": self._fence.run,
                "driver": self._driver.name,
                "program": self._program,
                "program_began_at": began_at(self._program),
                "is_stopped": is_stopped(self._program),
                "memory_bytes": memory_of(self._program),
                "ran_s": time.monotonic() - self._began_s,
                "restored_from": self._from,
            }
        )

    def _is_badly_restored(self, status: int) -> bool:
        is_early = time.monotonic() - self._began_s < _EARLY_S
        fault = os.waitstatus_to_exitcode(status)
        if not (self._from and is_early and -fault in _FAULTS):
            return False
        self._refused(self._from, f"restored, it died of signal {-fault} at once")
        return True

    def _was_hurt(self, status: int) -> bool:
        """Return True if it died of a checkpoint whose writer was killed; it goes on from the one before then."""
        if os.waitstatus_to_exitcode(status) >= 0 or not self._folder.unpublished():
            return False
        deadline_s = time.monotonic() + _WRITER_ENDS_S
        while time.monotonic() < deadline_s:
            try:
                with self._folder.locked():
                    return self._has_cleared()
            except Busy:
                time.sleep(_LOOK_S)
        return False

    def _has_cleared(self) -> bool:
        """Remove unfinished checkpoints; return True if one of them can have hurt the program."""
        found = self._folder.unpublished()
        is_hurt = any(not self._driver.is_left_whole(self._folder.images(one)) for one in found)
        for generation in found:
            self._folder.drop(generation)
            error = "its writer was killed, and the program died of it" if is_hurt else "its writer was killed"
            self._owed.tell("checkpoint_failed", generation=generation, why="abandoned", error=error)
        return is_hurt

    def _end(self) -> None:
        """Pass the wish to end on. The first process of a namespace hears none that it has no handler for."""
        self._is_ending = True
        if heeds(self._program, signal.SIGTERM):
            with suppress(ProcessLookupError):
                os.kill(self._program, signal.SIGTERM)
        else:
            kill_tree(self._program)

    def _close(self, status: int) -> int:
        code = os.waitstatus_to_exitcode(status)
        code = 128 - code if code < 0 else code
        if not self._is_ending and code != 128 + signal.SIGKILL:
            self._done(code)  # else its node goes, and it is to run again elsewhere
        with suppress(OSError):
            self._fence.leave()
        return code

    def _done(self, code: int) -> None:
        """Note the end. Without room it only stands in Slurm's record."""
        self._fence.check()
        self._owed.note(_DONE, f"{self._fence.run} {code}")
        deadline_s = time.monotonic() + _DONE_S
        while not self._owed.pay() and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)


def _node() -> str:
    return os.environ.get("SLURMD_NODENAME", "")
