"""The exit code and the sentence for an error that ends a command."""

from __future__ import annotations

from typing import NamedTuple

from app.commands.changing import told_of_changes
from app.domain.errors import TenureError, Unavailable
from app.domain.inputs import InputError, NoDatabase, OutputLost, ReaderGone, WorkEnded
from app.importing.errors import ImportRefused
from app.managing.batch import ManagerRuns
from app.managing.programs import ProgramFailed
from app.nova.session import OpenStackFailed, OpenStackForbidden
from tenure_client import (
    AnswerUnreadable,
    ArgumentInvalid,
    NameInvalid,
    NotConnected,
    RequestInvalid,
    ServiceRefused,
    ServiceUnreachable,
    Unauthenticated,
    ValueInvalid,
)

_CODES: dict[type[Exception], int] = {
    InputError: 2,
    ArgumentInvalid: 2,
    NameInvalid: 2,
    ValueInvalid: 2,
    RequestInvalid: 2,
    ServiceRefused: 1,
    ImportRefused: 1,
    ServiceUnreachable: 3,
    AnswerUnreadable: 3,
    Unavailable: 3,
    NoDatabase: 3,
    WorkEnded: 3,
    ProgramFailed: 3,
    ManagerRuns: 3,
    OpenStackForbidden: 1,
    OpenStackFailed: 3,
    TenureError: 1,
}
"""The first that fits."""
_LOST = 3
_READER_GONE = 141
"""The code of a program that SIGPIPE has ended."""
_CODE = "(preemptible."
"""Before the code of an error that the service told itself."""
_OPENSTACK = "OpenStack does not do what is asked of it (its login is named by OS_CLOUD, or OS_AUTH_URL and so on)"


class Exit(NamedTuple):
    """The exit code of a command, and the sentence that goes before it; an empty one is not said."""

    code: int
    sentence: str


def exit_of(error: Exception) -> Exit | None:
    """Return how an error ends the command, or None if none of ours."""
    if isinstance(error, OutputLost):
        return _of_lost(error)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return None if code is None else Exit(code, _told(error))


def _of_lost(error: OutputLost) -> Exit:
    """Return how a command ends whose output is lost: quietly after `| head`, unless it has changed something."""
    told = told_of_changes()
    if isinstance(error, ReaderGone) and not told:
        return Exit(_READER_GONE, "")
    return Exit(_LOST, "; ".join(filter(None, (_told(error), told))))


def _told(error: Exception) -> str:
    """Return the sentence for an error, with what the caller can do where only the command line knows it."""
    if isinstance(error, ArgumentInvalid):
        return f"--{error.argument} or TENURE_{error.argument.upper()}: {error}"
    if isinstance(error, Unauthenticated):
        return (
            f"{error}; give a valid token with --token or TENURE_TOKEN; on the service's machine"
            " `tenure token create NAME --role ROLE` makes one (--data-dir names the service's folder);"
            " an admin may do everything"
        )
    told = f"{_OPENSTACK}: {error}" if isinstance(error, OpenStackFailed) else str(error)
    if isinstance(error, NotConnected):
        told += "; is the service running? make run, or tenure run, starts it; --url or TENURE_URL names another"
    elif isinstance(error, ServiceUnreachable) and _CODE not in told:
        told = (
            told.removesuffix(".")
            + "; the service did not answer to the end: try again, and if it stays so, look into its log"
        )
    return "; ".join((told, *getattr(error, "__notes__", ())))
