"""A temporary SQLite file that sorts a recorded past, so that its length costs disk and not memory.

Records come in the order of their files. A log needs the order of decisions, each id once, and the ends of instances
beside their starts. SQLite sorts, tells ids apart and joins within a bounded amount of memory. The file is deleted
afterwards.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from app.importing.rules.records import FileLine, PastChange, PastInstance, PastStep

_CACHE_KIB = 64 << 10
_FETCH = 2_000
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = FILE;
CREATE TABLE instance (
    id INTEGER PRIMARY KEY, file INTEGER, line INTEGER, end_line INTEGER, is_spot INTEGER, name TEXT UNIQUE,
    start_us INTEGER, stop_us INTEGER, lifetime_us INTEGER, flavor TEXT, drawn_up INTEGER, in_order INTEGER,
    members INTEGER
);
CREATE TABLE change (
    id INTEGER PRIMARY KEY, file INTEGER, line INTEGER, at_us INTEGER, kind TEXT, name TEXT,
    cores INTEGER, memory_mib INTEGER, disk_gib INTEGER
);
CREATE TABLE step (id INTEGER PRIMARY KEY, at_us INTEGER, what INTEGER, ref INTEGER);
"""
# At equal times: what a log did, in its order; else stops, then on-demand starts, then spot starts, each by the order
# of the starts, and an instance without duration stops right after its start (docs/evaluation.md).
_SORT = """
INSERT INTO step (at_us, what, ref)
SELECT at_us, what, ref FROM (
    SELECT at_us, 0 AS phase, 0 AS start_us, 0 AS is_spot, file, line, 0 AS last, 2 AS what, id AS ref FROM change
    UNION ALL
    SELECT start_us, NOT in_order, iif(in_order, 0, start_us), iif(in_order, 0, is_spot), file, line, 0, 0, id
    FROM instance
    UNION ALL
    SELECT stop_us, NOT in_order AND stop_us = start_us, iif(in_order, 0, start_us), iif(in_order, 0, is_spot), file,
           iif(in_order, end_line, line), 1, 1, id
    FROM instance WHERE stop_us IS NOT NULL
)
ORDER BY at_us, phase, start_us, is_spot, file, line, last, ref
"""
_STEPS = """
SELECT step.at_us, what, coalesce(i.file, c.file), coalesce(i.line, c.line), i.name, i.is_spot, i.flavor,
       iif(i.in_order, i.lifetime_us, coalesce(i.lifetime_us, i.stop_us - i.start_us)),
       i.drawn_up, c.kind, c.name, c.cores, c.memory_mib, c.disk_gib, i.members
FROM step LEFT JOIN instance i ON what < 2 AND i.id = ref LEFT JOIN change c ON what = 2 AND c.id = ref
ORDER BY step.id
"""
_GAPS = """
SELECT coalesce(i.file, c.file), coalesce(i.line, c.line), gap_us FROM (
    SELECT id, what, ref, at_us - lag(at_us) OVER (ORDER BY id) AS gap_us FROM step
)
LEFT JOIN instance i ON what < 2 AND i.id = ref LEFT JOIN change c ON what = 2 AND c.id = ref
WHERE gap_us > ? ORDER BY 1, 2
"""
_MOST_ADDED = """
SELECT coalesce(max(count), 0), coalesce(max(cores), 0) FROM (
    SELECT cores, sum((kind = 'node_added') - (kind = 'node_removed')) OVER (ORDER BY at_us, file, line, id) AS count
    FROM change WHERE kind IN ('node_added', 'node_removed', 'node_resized')
)
"""
_STOP_US = (
    "SELECT max(at_us) FROM (SELECT max(start_us) AS at_us FROM instance UNION ALL SELECT max(stop_us) FROM instance"
)
_END = f"{_STOP_US} UNION ALL SELECT max(at_us) FROM change)"
_BEGIN = "SELECT min(at_us) FROM (SELECT min(start_us) AS at_us FROM instance UNION ALL SELECT min(at_us) FROM change)"


class Scratch:
    """The temporary file. Use it in a `with` block; it is deleted at the end."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="tenure-import-")
        # One thread after another uses the file, never two at once.
        path = Path(self._directory.name) / "past.sqlite"
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._directory.cleanup()

    def add(self, instance: PastInstance) -> bool:
        """Keep an instance; return False, and keep nothing, if its name is taken."""
        places = "NULL, " + ", ".join("?" * len(instance))
        return self._database.execute(f"INSERT OR IGNORE INTO instance VALUES ({places})", instance).rowcount == 1

    def add_change(self, change: PastChange) -> None:
        """Keep a change."""
        self._database.execute(f"INSERT INTO change VALUES (NULL, {', '.join('?' * len(change))})", change)

    def most_added(self) -> tuple[int, int]:
        """Return how many of the nodes that are added are there at once at most, and the most cores of one."""
        count, cores = self._database.execute(_MOST_ADDED).fetchone()
        return count, cores

    def span_us(self) -> tuple[int, int] | None:
        """Return the times of the first and the last record; None if there are none."""
        (begin_us,), (end_us,) = self._database.execute(_BEGIN).fetchone(), self._database.execute(_END).fetchone()
        return None if begin_us is None else (begin_us, end_us)

    def close_ends(self, end_us: int, *, on_demand_too: bool) -> None:
        """Declare lifetimes up to `end_us` for spot instances without an end; stop the others if asked to."""
        self._database.execute(
            "UPDATE instance SET lifetime_us = ? - start_us WHERE stop_us IS NULL AND lifetime_us IS NULL AND is_spot",
            (end_us,),
        )
        if on_demand_too:
            self._database.execute("UPDATE instance SET stop_us = ? WHERE stop_us IS NULL", (end_us,))

    def cut_after(self, end_us: int) -> None:
        """Remove ends after the end of the record; ends that were computed can lie there."""
        self._database.execute("UPDATE instance SET stop_us = NULL WHERE stop_us > ?", (end_us,))

    def places(
        self, condition: str, values: tuple[int, ...], limit: int, line: str = "line"
    ) -> tuple[int, list[FileLine]]:
        """Return how many instances meet an SQL condition, and the first lines (`line` or `end_line`) of them."""
        (count,) = self._database.execute(f"SELECT count(*) FROM instance WHERE {condition}", values).fetchone()
        found = self._database.execute(
            f"SELECT file, {line} FROM instance WHERE {condition} ORDER BY 1, 2 LIMIT {limit}", values
        )
        return count, [FileLine(*row) for row in found]

    def sort(self) -> int:
        """Put everything in the order of decisions; return the number of steps."""
        self._database.execute("DELETE FROM step")
        return self._database.execute(_SORT).rowcount

    def gaps(self, longer_than_us: int) -> Iterator[tuple[FileLine, int]]:
        """Yield the gaps that are longer than this, each with the line that ends it."""
        for file, line, gap_us in self._database.execute(_GAPS, (longer_than_us,)):
            yield FileLine(file, line), gap_us

    def steps(self) -> Iterator[PastStep]:
        """Yield all steps, after `sort`."""
        cursor = self._database.execute(_STEPS)
        while rows := cursor.fetchmany(_FETCH):
            for row in rows:
                yield PastStep._make(row)
