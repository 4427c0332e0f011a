"""Pages of events: few enough, and short enough in bytes.

An event may be large: one names all nodes that a start could take, another all instances that it evicted. So whoever
reads events in pages bounds their bytes too. The database does so by the size that it stores, which it knows without
reading the values.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import Recorded
from app.domain.events.registry import KINDS, STARTS

FOLDED_BYTES = 8 << 20
"""The bytes of events that are read at once where each is folded and forgotten."""
LISTED_BYTES = 2 << 20
"""The bytes of events that are read for one page of a list."""
_UNPACKED = 16
"""A byte of a compressed value is taken for so many. Names that are much alike may be some times as many."""
_SIZE = f"pg_column_size(data) * CASE WHEN pg_column_compression(data) IS NULL THEN 1 ELSE {_UNPACKED} END"
_COLUMNS = "SELECT seq, kind, version, data FROM event WHERE cloud_id = %(cloud_id)s"


class LogPart(list[Recorded]):
    """Events of a log. `is_cut`: there are more of those that were asked for, which would have been too many bytes."""

    is_cut = False


def in_bytes(events: str, *, order: str = "seq", counted: str = "true", also: str = "") -> str:
    """Return the query for the first of these events that have `most_bytes` together, or for the first one.

    Its columns are those of an event, whether another one follows, and `also`. Only those are `counted` that meet this.
    """
    return f"""
SELECT seq, kind, version, data::text, further IS NOT NULL{also} FROM (
    SELECT seq, kind, version, data, lead(seq) OVER places AS further,
    coalesce(sum({_SIZE}) FILTER (WHERE {counted}) OVER (
        places ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS bytes_before
    FROM ({events}) AS asked WINDOW places AS (ORDER BY {order})
) AS event WHERE bytes_before < %(most_bytes)b::bigint ORDER BY {order}
"""


# A range instead of a LIMIT: as there are no gaps, no plan reads the whole tail for its first rows.
_RANGE = f"{_COLUMNS} AND seq > %(after_seq)s AND seq <= %(up_to_seq)s"
TAIL = in_bytes(_RANGE)
OF_KINDS = in_bytes(
    f"{_RANGE} AND (kind = ANY(%(kinds)s::text[]) OR kind <> ALL(%(known)s::text[])) ORDER BY seq LIMIT %(limit)s"
)
ADMITTED_SPOT = in_bytes(f"{_RANGE} AND kind = 'instance_started' AND data->>'market' = 'spot'")
STARTED_FOR = f"""
SELECT seq, kind, version, (data - 'allowed')::text FROM event WHERE cloud_id = %(cloud_id)s
AND instance_id = ANY(%(instance_ids)s::text[]) AND kind IN {STARTS} AND data->>'project' = %(project)s
"""


def after(digest: str) -> str:
    """Return the query for the next events after a known one, and before them this one.

    The last column is the digest of that one and of the last one.
    """
    events = f"{_COLUMNS} AND seq >= %(known)b::bigint AND seq <= %(up_to_seq)b::bigint"
    ends = "seq = %(known)b::bigint OR lead(seq) OVER (ORDER BY seq) IS NULL"
    return in_bytes(events, counted="seq > %(known)b::bigint", also=f", CASE WHEN {ends} THEN {digest} END")


def started(project: str | None) -> str:
    """Return the query for the next decisions on starts, of one project or of all."""
    of_project = "" if project is None else "AND data->>'project' = %(project)s"
    of_market = "(%(market)s::text IS NULL OR data->>'market' = %(market)s)"
    events = f"{_COLUMNS} AND seq > %(after_seq)s AND kind IN {STARTS} AND {of_market} {of_project}"
    return in_bytes(f"{events} ORDER BY seq LIMIT %(limit)s")


def newest(kinds: Sequence[str]) -> str:
    """Return the query for the newest events of these kinds, newest first."""
    of_kinds = "kind IN (" + ", ".join(f"'{kind}'" for kind in kinds if kind in KINDS) + ")"
    of_market = "(%(market)s::text IS NULL OR coalesce(data->>'market', %(market)s::text) = %(market)s::text)"
    events = f"{_COLUMNS} AND seq >= %(from_seq)s AND seq < %(before_seq)s AND {of_kinds} AND {of_market}"
    return in_bytes(f"{events} ORDER BY seq DESC LIMIT %(limit)s", order="seq DESC")
