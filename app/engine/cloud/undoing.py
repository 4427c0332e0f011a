"""The undo of events that are applied and not committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.engine.cloud.records import Undo


class Undoing(list[Undo]):
    """The undo of each change, in the order of the changes."""

    def back_to(self, mark: int) -> None:
        """Undo all but the first `mark` changes, newest first."""
        while len(self) > mark:
            self.pop()()

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Undo on leaving what was changed since entering."""
        mark = len(self)
        try:
            yield
        finally:
            self.back_to(mark)


def nothing() -> None:
    """Undo nothing."""


def both(first: Undo, second: Undo) -> Undo:
    """Return the undo of two changes that were made in this order."""

    def undo() -> None:
        second()
        first()

    return undo


def all_of(undo: list[Undo]) -> Undo | None:
    """Return the undo of all of them; None if there is none."""
    if not undo:
        return None

    def back() -> None:
        for one in reversed(undo):
            one()

    return back
