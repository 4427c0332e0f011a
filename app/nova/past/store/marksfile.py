"""A temporary SQLite file of what happened to servers, by server, so that many events cost disk and not memory."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from app.nova.past.splitting import ServerMark, SizeChange

_CACHE_KIB = 32 << 10
_AT_ONCE = 500
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE mark (server TEXT, at_us INTEGER, event TEXT);
CREATE TABLE size_change (server TEXT, at_us INTEGER, old INTEGER, new INTEGER);
CREATE TABLE seen (server TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS mark_server ON mark (server)",
    "CREATE INDEX IF NOT EXISTS size_change_server ON size_change (server)",
)

Marks = dict[str, list[tuple[int, ServerMark]]]
SizeChanges = dict[str, list[SizeChange]]


class MarksFile:
    """The temporary file. Use it in a `with` block; it is deleted at the end."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="tenure-nova-")
        path = Path(self._directory.name) / "marks.sqlite"
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._directory.cleanup()

    def add_marks(self, marks: Iterable[tuple[str, int, str]]) -> None:
        """Keep events: the server, the time, Nova's name of the event."""
        self._database.executemany("INSERT INTO mark VALUES (?, ?, ?)", marks)

    def add_changes(self, changes: Iterable[tuple[str, int, int | None, int | None]]) -> None:
        """Keep changes of size: the server, the time at which it was begun, the old and the new flavor."""
        self._database.executemany("INSERT INTO size_change VALUES (?, ?, ?, ?)", changes)

    def index(self) -> None:
        """Make what was kept quick to find."""
        for statement in _INDEXES:
            self._database.execute(statement)

    def of(self, servers: Sequence[str]) -> tuple[Marks, SizeChanges]:
        """Return what happened to these servers, in the order of time."""
        marks: Marks = {}
        changes: SizeChanges = {}
        for first in range(0, len(servers), _AT_ONCE):
            some = servers[first : first + _AT_ONCE]
            places = f"WHERE server IN ({', '.join('?' * len(some))}) ORDER BY at_us, rowid"
            for server, at_us, event in self._database.execute(f"SELECT * FROM mark {places}", some):
                marks.setdefault(server, []).append((at_us, ServerMark(event)))
            for server, *change in self._database.execute(f"SELECT * FROM size_change {places}", some):
                changes.setdefault(server, []).append(SizeChange(*change))
        return marks, changes

    def note(self, servers: Sequence[str]) -> list[bool]:
        """Note servers; return for each whether it was noted before, or stands in front of its place here."""
        before: set[str] = set()
        for first in range(0, len(servers), _AT_ONCE):
            some = servers[first : first + _AT_ONCE]
            found = f"SELECT server FROM seen WHERE server IN ({', '.join('?' * len(some))})"
            before.update(server for (server,) in self._database.execute(found, some))
        were_noted = []
        for server in servers:
            were_noted.append(server in before)
            before.add(server)
        fresh = [(server,) for server, was_noted in zip(servers, were_noted, strict=True) if not was_noted]
        self._database.executemany("INSERT INTO seen VALUES (?)", fresh)
        return were_noted
