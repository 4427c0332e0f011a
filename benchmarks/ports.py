"""Ports for services that end and start again."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence

_FIRST, _COUNT = 20_000, 12_000
"""Below those that the kernel gives to connections: one of these may take the port of a service while it is away."""


def free_port() -> int:
    """Return a port of the loopback address that nobody uses."""
    return free_ports(("",))[""]


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """Return a port of the loopback address that nobody uses for each name, one above the other."""
    found: dict[str, int] = {}
    candidate = _FIRST + secrets.randbelow(_COUNT)  # others look too, and may use what they found minutes from now
    for name in names:
        while not _is_free(candidate):
            candidate += 1
        found[name] = candidate
        candidate += 1
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
