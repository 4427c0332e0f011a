"""Defects that the harness must find: each takes one mend out of the service, in the process that calls it."""

from __future__ import annotations


def bring_back(name: str) -> None:
    """Bring back the defect of this name."""
    {"stale_batches": _stale_batches}[name]()


def _stale_batches() -> None:
    """A batch that writes no event is answered from the process's own state, however old that is."""
