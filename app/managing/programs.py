"""Programs of the host: those that a cluster needs, how they are run, and how daemons are started and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which

import psutil

NEEDED = (
    "slurmctld",
    "slurmd",
    "sbatch",
    "squeue",
    "sinfo",
    "scancel",
    "scontrol",
    "munged",
    "ip",
    "unshare",
    "setsid",
    "nsenter",
    "setpriv",
)
INSTALL = "tools/lab-install installs them on Debian"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT_S = 15.0
_END_S = 5.0
_TAIL_BYTES = 4096
_ASK_EVERY_S = 0.25


class ProgramFailed(Exception):
    """A program of the host failed, is missing, or did not end in time. The message has what it said."""


class ProgramSilent(ProgramFailed):
    """A program did not end in time, or the one that it waits for is gone."""


def missing_programs() -> list[str]:
    """Return the programs that a cluster needs and the host lacks."""
    return [name for name in NEEDED if which(name, path=SYSTEM_PATH) is None]


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
    is_vain: Callable[[], str] | None = None,
) -> str:
    """Return what a program writes. Raise ProgramFailed if it does not end with 0, ProgramSilent if not in time.

    is_vain is asked while it lasts for a reason why no answer can come any more; empty: there is none.
    """
    try:
        program = subprocess.Popen(  # noqa: S603 - programs of the host, without a shell
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=_environment(environment),
        )
    except OSError as error:
        raise ProgramFailed(f"{arguments[0]}: {error}") from None
    with program:
        try:
            out, said = _told(program, arguments[0], timeout_s, is_vain)
        except BaseException:
            program.kill()
            raise
    if program.returncode:
        words = (said.strip() or out.strip())[-500:]
        raise ProgramFailed(f"{' '.join(arguments)}: exit {program.returncode}: {words}")
    return out


def _told(
    program: subprocess.Popen[str], name: str, timeout_s: float, is_vain: Callable[[], str] | None
) -> tuple[str, str]:
    """Return the two outputs of a program at its end."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return program.communicate(timeout=max(left_s if is_vain is None else min(left_s, _ASK_EVERY_S), 0.0))
        except subprocess.TimeoutExpired:
            why = is_vain() if is_vain is not None else ""
            if why:
                raise ProgramSilent(f"{name}: {why}") from None
            if time.monotonic() >= deadline_s:
                raise ProgramSilent(f"{name} does not answer within {timeout_s:g} s") from None


def start_daemon(arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> int:
    """Start a program that outlives this one, with its output in a log; return its process id."""
    return start_helper(arguments, log, environment).pid


def start_helper(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program that goes on if this one dies, with what it says in a log; the caller looks if it has ended."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - as above
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=_environment(environment),
            start_new_session=True,
            close_fds=True,
        )


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a log that are not empty; none if there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def end_daemon(pid_file: Path, name: str) -> None:
    """End the daemon of a pid file, if the process is one of that name still: with TERM, and with KILL if it stays."""
    process = daemon_of(pid_file, name)
    if process is None:
        return
    process.terminate()
    try:
        process.wait(_END_S)
    except psutil.TimeoutExpired:
        process.kill()


def kill_daemon(pid_file: Path, name: str) -> str:
    """Kill the daemon of a pid file, if it is one of that name still; return the name, empty: there was none."""
    process = daemon_of(pid_file, name)
    if process is None:
        return ""
    with suppress(psutil.Error):
        process.kill()
        process.wait(_END_S)
    return name


def daemon_of(pid_file: Path, name: str) -> psutil.Process | None:
    """Return the running process of a pid file, if it is one of that name."""
    try:
        process = psutil.Process(int(pid_file.read_text()))
        is_it = process.name() == name and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.Error):
        return None
    return process if is_it else None


def kill_all(pids: Sequence[int]) -> None:
    """Kill processes at once."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_until(is_so: Callable[[], object], what: str, timeout_s: float) -> None:
    """Wait until a function returns true. Raise ProgramFailed if it does not in time."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            raise ProgramFailed(f"{what} within {timeout_s:g} s")
        time.sleep(0.05)


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    """Return a bare environment: nothing of the caller's, such as its token, reaches daemons and their jobs."""
    return {"PATH": SYSTEM_PATH, "HOME": "/root", "LANG": "C.UTF-8", **(more or {})}
