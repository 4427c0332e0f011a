"""Starts a job's program: plainly, or as the first process of a namespace of its own. It ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from shutil import which
from typing import NoReturn

WITH_US = ("--pdeathsig", "KILL")
"""Options of `setpriv` for a program that is to end with its parent."""
_PDEATHSIG, _NEWPID = 1, 0x20000000
_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these signals, and no other program should inherit that."""


def spawn(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start a program, with nothing to read; return its process id. Raise FileNotFoundError if there is none."""
    _look_for(command)
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    words = ["setpriv", *WITH_US, *command]
    return os.posix_spawnp("setpriv", words, environment, file_actions=nothing, setsigdef=_PYTHONS_OWN)


def give_way(command: Sequence[str]) -> NoReturn:
    """Become a program, in the place of this one. Raise FileNotFoundError if there is none."""
    _look_for(command)
    for number in _PYTHONS_OWN:
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], [*command])  # noqa: S606 - the job's own program


def spawn_first(command: Sequence[str]) -> int:
    """Start a program as the first process of a namespace and of a session; return the process to wait for.

    That one is the program's parent outside of the namespace, and ends as it does. `unshare` would do the same, but it
    does not tell a program that was killed from one that failed.
    """
    _look_for(command)
    parent = os.fork()
    if parent == 0:
        _be_parent(command)
    return parent


def _look_for(command: Sequence[str]) -> None:
    if which(command[0]) is None:
        raise FileNotFoundError(f"there is no program {command[0]!r}")


def _be_parent(command: Sequence[str]) -> None:
    """Wait for the program in the namespace, and end as it ends. Never returns."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PDEATHSIG, signal.SIGKILL)
        if libc.unshare(_NEWPID) != 0:
            os._exit(os.EX_OSERR)
        program = os.fork()
        if program == 0:
            libc.prctl(_PDEATHSIG, signal.SIGKILL)
            _become(command)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_as(os.waitpid(program, 0)[1])
    finally:
        os._exit(os.EX_OSERR)


def _become(command: Sequence[str]) -> None:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (*_PYTHONS_OWN, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], [*command])  # noqa: S606 - the job's own program
    finally:
        os._exit(127)


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with_default = {signal.SIGKILL, signal.SIGSTOP}
        if -code not in with_default:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
