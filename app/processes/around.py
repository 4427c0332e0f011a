"""The surroundings of each process of the service: where it listens, its signals, its traces."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from app.domain.inputs import InputError
from app.platform.telemetry.tracing import TracingImpossible, tracing

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_PORT = 65535


@contextmanager
def traced(process: str) -> Iterator[None]:
    """Trace what happens in the block. Raises InputError where that is asked for and cannot be."""
    try:
        with tracing(process):
            yield
    except TracingImpossible as error:
        raise InputError(str(error)) from None


def heed_no_more() -> None:
    """Ignore further signals, which would only interrupt the interpreter's own exit."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def listen(host: str, port: int, variable: str = "TENURE_PORT") -> socket.socket:
    """Return the bound socket to serve on. Raises InputError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        raise InputError(_why_not_listening(host, port, variable, error)) from error
    listener.set_inheritable(True)
    return listener


def hear(listener: socket.socket, backlog: int) -> None:
    """Let callers connect from now on. Raises InputError if another process does by now, which bound it as early."""
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(backlog)
    except OSError as error:
        raise InputError(_why_not_listening(host, port, "TENURE_PORT", error)) from error


def _why_not_listening(host: str, port: int, variable: str, error: OSError | UnicodeError) -> str:
    """Return the sentence for an address that cannot be had: either its host or its port is to be changed."""
    if isinstance(error, socket.gaierror | UnicodeError) or error.errno == errno.EADDRNOTAVAIL:
        why = "it is no host's name" if isinstance(error, UnicodeError) else error.strerror
        return f"cannot listen on the host {host!r}: {why}; name an address of this machine with --host or TENURE_HOST"
    return f"cannot listen on {host}:{port}: {error.strerror}; choose another port with {_ways(variable, port)}"


def _ways(variable: str, port: int) -> str:
    """Return the ways to name another port; `make run` takes no options."""
    if variable != "TENURE_PORT":
        return variable
    return f"--port or {variable} (make run {variable}={port + 1 if port < _LAST_PORT else port - 1})"
