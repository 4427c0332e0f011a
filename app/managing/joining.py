"""Knows which machines Slurm has forgotten.

Slurm's controller writes its state each five seconds. After its death it does not know nodes that joined since then,
and `slurmd` does not join again by itself. No job that Slurm knows of runs on such a machine.
"""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet

JOINS_AGAIN_S = 10.0
"""A machine that was there when the controller was started anew has joined it by then, or was forgotten."""


class Joining:
    """Compares each look with the ones before. A new process begins without a memory; then `boot_timeout_s` holds."""

    def __init__(self) -> None:
        self._joined: AbstractSet[str] = frozenset()
        self._began_s = 0.0
        self._older: AbstractSet[str] = frozenset()

    def controller_began(self, machines: AbstractSet[str]) -> None:
        """Note that Slurm's controller was started, while these machines ran."""
        self._began_s, self._older = time.monotonic(), machines

    def forgotten(self, machines: AbstractSet[str], nodes: AbstractSet[str]) -> frozenset[str]:
        """Return the machines that run and were nodes of Slurm, and are not any more."""
        self._joined = (self._joined | nodes) & machines
        self._older = (self._older & machines) - nodes
        is_time = time.monotonic() - self._began_s > JOINS_AGAIN_S
        return frozenset((self._joined - nodes) | (self._older if is_time else frozenset()))
