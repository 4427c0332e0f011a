"""All that is to be written into a job's folder, and waits while that cannot be written: a full disk ends no job."""

from __future__ import annotations

from app.managing.checkpointing.folders import JobFolder
from app.managing.events import now

_MOST_EVENTS = 100


class Owed:
    """Notes and events of a job, written at once or as soon as there is room."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._notes: dict[str, str] = {}
        self._events: list[tuple[str, dict[str, object]]] = []
        self.error = ""

    def note(self, name: str, text: str) -> None:
        """Write a small file of the job's own."""
        self._notes[name] = text
        self.pay()

    def tell(self, kind: str, **facts: object) -> None:
        """Leave an event for the manager."""
        self._events = [*self._events, (kind, {"at": now(), **facts})][-_MOST_EVENTS:]
        self.pay()

    def pay(self) -> bool:
        """Write what waits; return True if nothing is left. Its error says why something is."""
        try:
            if self._notes or self._events:
                self._folder.prepare()
            for name, text in [*self._notes.items()]:
                self._folder.note(name, text)
                del self._notes[name]
            while self._events:
                kind, facts = self._events[0]
                self._folder.tell(kind, **facts)
                del self._events[0]
        except OSError as error:
            self.error = str(error)
            return False
        return True
