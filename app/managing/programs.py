"""Programs of the host: those that a cluster needs, how they are run, and how daemons are started and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
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


class ProgramFailed(Exception):
    """A program of the host failed, is missing, or did not end in time. The message has what it said."""


def missing_programs() -> list[str]:
    """Return the programs that a cluster needs and the host lacks."""
    return [name for name in NEEDED if which(name, path=SYSTEM_PATH) is None]


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S) -> str:
    """Return what a program writes. Raise ProgramFailed if it does not end with 0 in time."""
    try:
        done = subprocess.run(  # noqa: S603 - programs of the host, without a shell
            arguments,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=_environment(environment),
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{arguments[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise ProgramFailed(f"{' '.join(arguments)}: exit {done.returncode}: {said}")
    return done.stdout


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
