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
