"""Remembers that the database's disk was full when this process last tried to write."""

from __future__ import annotations

from time import monotonic

from app.domain.errors import LogUnavailable

_GOOD_FOR_S = 5.0
"""A process that gets no requests because it is not ready must become ready again, to try once more."""


class Shortage:
    """The last time that a statement of this process failed because the database's disk is full."""

    def __init__(self) -> None:
        self._met_at = float("-inf")

    def meet(self) -> None:
        """Note that a statement has just failed so."""
        self._met_at = monotonic()

    def check(self) -> None:
        """Raise LogUnavailable if a statement failed so within the last five seconds."""
        if monotonic() - self._met_at < _GOOD_FOR_S:
            raise LogUnavailable("the database takes no writes: its disk is full")
