"""Checkpoint drivers: the protocol, CRIU, jobs that save themselves at a signal, and jobs without any checkpoint.

A driver works on the machine of the job, beside it. It starts the program, takes an image of it that leaves it stopped,
and brings a program back from an image. It knows nothing of generations, outputs and managers.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile, which
from typing import Protocol

from app.managing.checkpointing.processes import cpu_flags, is_stopped
from app.managing.checkpointing.spawning import WITH_US, spawn, spawn_first
from app.managing.programs import SYSTEM_PATH, ProgramFailed, run

SAVE = "TENURE_SAVE"
"""The variable with the file that a program of the driver `signal` writes its state to."""
RESTORE = "TENURE_RESTORE"
"""The variable with the file that it loads its state from, if it is to go on."""
LONGEST_S = 3600.0
"""A checkpoint that takes longer has failed."""
_SOON_S = 5.0
_LOOK_S = 0.01


class NotSaved(Exception):
    """No image could be taken, and the message says why. is_hurt: the program may be damaged, and must not run on."""

    def __init__(self, why: str, *, is_hurt: bool = False) -> None:
        super().__init__(why)
        self.is_hurt = is_hurt


class RestoreRefused(Exception):
    """A program could not be brought back from an image. The message says why."""


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that runs: the child to wait for, and the program itself."""

    child: int
    program: int


class CheckpointDriver(Protocol):
    """Starts, saves and brings back one program."""

    name: str

    def missing(self) -> str:
        """Return why the driver cannot work here; empty: it can."""

    def version(self) -> str:
        """Return the tool and its version."""

    def start(self, command: Sequence[str], folder: Path) -> StartedProgram:
        """Start a program from its beginning. folder: the job's. Raise OSError if there is no such program."""

    def save(self, program: int, images: Path) -> None:
        """Take an image, and leave the program stopped. Raise NotSaved."""

    def is_left_whole(self, images: Path) -> bool:
        """Return True if whoever took this unfinished image cannot have damaged the program."""

    def restore(self, images: Path, command: Sequence[str], folder: Path) -> StartedProgram:
        """Bring a program back. Raise RestoreRefused."""


class Criu:
    """CRIU: the memory, files and processes of a program that knows nothing of checkpoints.

    The program is the first one of a process namespace of its own, so its process numbers are free on every machine.
    """

    name = "criu"

    def missing(self) -> str:
        """Return why there is no CRIU here that works."""
        if os.geteuid() != 0:
            return "only root can take images of processes with CRIU"
        if int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) > 1:
            return "CRIU takes jobs of one node only"
        if which("criu", path=SYSTEM_PATH) is None:
            return "there is no criu (tools/lab-install)"
        try:
            run(["criu", "check"])
        except ProgramFailed as error:
            return f"criu does not work on this kernel: {error}"
        return ""

    def version(self) -> str:
        """Return the version of CRIU."""
        found = re.search(r"Version: (\S+)", run(["criu", "--version"]))
        return f"criu {found[1] if found else '?'}"

    def start(self, command: Sequence[str], folder: Path) -> StartedProgram:  # noqa: ARG002 - of the protocol
        """Start the program as the first process of a namespace and of a session."""
        child = spawn_first(command)
        deadline_s = time.monotonic() + _SOON_S
        while time.monotonic() < deadline_s:
            if inside := _children(child):
                return StartedProgram(child, inside[0])
            time.sleep(_LOOK_S)
        return StartedProgram(child, child)

    def save(self, program: int, images: Path) -> None:
        """Dump the program and its children. If criu dies in the middle, what it left is not trusted."""
        arguments = ["setpriv", *WITH_US, "criu", "dump", "-t", str(program), "-D", str(images)]
        arguments += ["-o", "dump.log", "-v1", "--leave-stopped", "--shell-job", "--file-locks"]
        code, said = _criu([*arguments, "--timeout", str(int(LONGEST_S))])
        if code == 0:
            return
        said = _complaint(images / "dump.log", said)
        raise NotSaved(f"criu: {said}" if code > 0 else f"criu was killed ({-code})", is_hurt=code < 0)

    def is_left_whole(self, images: Path) -> bool:
        """Return True if CRIU had finished: its statistics are the last that it writes."""
        return (images / "stats-dump").exists()

    def restore(self, images: Path, command: Sequence[str], folder: Path) -> StartedProgram:  # noqa: ARG002 - of the protocol
        """Bring the program back as a child of this process, which can so learn how it ends."""
        pid_file = folder / "restored.pid"
        pid_file.unlink(missing_ok=True)
        log = folder / "restore.log"
        arguments = ["criu", "restore", "-D", str(images), "-o", str(log), "-v1", "--shell-job", "--file-locks"]
        code, said = _criu([*arguments, "--restore-detached", "--restore-sibling", "--pidfile", str(pid_file)])
        if code != 0:
            _reap()
            raise RestoreRefused(f"criu: {_complaint(log, said)}")
        program = int(pid_file.read_text())
        return StartedProgram(program, program)


class BySignal:
    """Programs that save themselves: at USR1 they write their state to the file $TENURE_SAVE, then stop themselves.

    They are continued once it is published, and find it as $TENURE_RESTORE when they are to go on from it.
    """

    name = "signal"

    def missing(self) -> str:
        """Return nothing: a signal can be sent anywhere."""
        return ""

    def version(self) -> str:
        """Return the name."""
        return self.name

    def start(self, command: Sequence[str], folder: Path) -> StartedProgram:
        """Start the program, and tell it where its state goes."""
        return self._start(command, {SAVE: str(folder / "saving")})

    def _start(self, command: Sequence[str], more: dict[str, str]) -> StartedProgram:
        environment = {name: value for name, value in os.environ.items() if name != RESTORE} | more
        child = spawn(command, environment)
        return StartedProgram(child, child)

    def save(self, program: int, images: Path) -> None:
        """Ask the program, and take its state once it has stopped itself."""
        state = images.parents[1] / "saving"
        state.unlink(missing_ok=True)
        os.kill(program, signal.SIGUSR1)
        deadline_s = time.monotonic() + LONGEST_S
        while not is_stopped(program):
            if time.monotonic() > deadline_s:
                raise NotSaved(f"the program did not stop itself within {LONGEST_S:g} s of USR1")
            time.sleep(_LOOK_S)
        if not state.exists():
            raise NotSaved(f"the program stopped without writing ${SAVE}")
        copyfile(state, images / "state")

    def is_left_whole(self, images: Path) -> bool:  # noqa: ARG002 - of the protocol
        """Return True: a program that saves itself is touched by nobody."""
        return True

    def restore(self, images: Path, command: Sequence[str], folder: Path) -> StartedProgram:
        """Start the program, and tell it where its state is."""
        return self._start(command, {SAVE: str(folder / "saving"), RESTORE: str(images / "state")})


class Unsaved:
    """Programs without checkpoints: they begin again when their machine is lost."""

    name = "none"

    def missing(self) -> str:
        """Return nothing."""
        return ""

    def version(self) -> str:
        """Return the name."""
        return self.name

    def start(self, command: Sequence[str], folder: Path) -> StartedProgram:  # noqa: ARG002 - of the protocol
        """Start the program."""
        child = spawn(command, os.environ)
        return StartedProgram(child, child)

    def save(self, program: int, images: Path) -> None:  # noqa: ARG002 - of the protocol
        """Refuse."""
        raise NotSaved("the job runs without checkpoints")

    def is_left_whole(self, images: Path) -> bool:  # noqa: ARG002 - of the protocol
        """Return True."""
        return True

    def restore(self, images: Path, command: Sequence[str], folder: Path) -> StartedProgram:  # noqa: ARG002 - of the protocol
        """Refuse."""
        raise RestoreRefused("the job runs without checkpoints")


DRIVERS: dict[str, CheckpointDriver] = {driver.name: driver for driver in (Criu(), BySignal(), Unsaved())}


def lacking_flags(flags: str) -> list[str]:
    """Return what the processor of an image could, and this one cannot."""
    return sorted({*flags.split()} - {*cpu_flags().split()})


def _criu(arguments: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of a call of CRIU, below 0 if it was killed, and what it wrote."""
    environment = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(  # noqa: S603 - a program of the host
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=LONGEST_S,
            check=False,
        )
    except OSError as error:
        return 1, str(error)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, "it took too long"
    return done.returncode, done.stderr.strip()[-300:]


def _complaint(log: Path, said: str) -> str:
    """Return the first errors in a log of CRIU; they tell the cause, and the later ones follow from them."""
    with suppress(OSError):
        errors = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
        told = [line.partition("): ")[2] or line for line in errors if "RLIMIT_NOFILE" not in line]
        if told:
            return "; ".join(told[:3])[:300]
    return said or "it failed without a word"


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _reap() -> None:
    """Take leave of a half restored program, which was a child of this process."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
