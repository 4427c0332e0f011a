"""The event log of every cloud: append-only, numbered 1, 2, 3, ... within a cloud, without gaps.

A writer appends at the seq after the state it decided on. The primary key (cloud_id, seq) gives each seq to one writer;
the other gets `SeqConflict`, and nothing of its batch is kept. The same statement requires the preceding event, known
by its mark: a writer whose log was put back to an earlier end gets `PredecessorMissing`, also if it has grown again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from app.domain.errors import LogBroken, LogNewer, LogPutBack, LogUnavailable
from app.domain.events import CloudCreated, FlavorAdded, PolicyChanged, Recorded
from app.domain.events.kinds import REGISTERED
from app.domain.events.registry import ENDINGS, ENDS, EXTENSIONS, KINDS, NOTICES, POLICIES, STARTS
from app.domain.values import Market, Policy, Resources
from app.platform.database.database import Database, Session, Tuples, is_taken_back
from app.platform.database.lockids import log_lock
from app.platform.turns import Turns
from app.scheduling.store import pages
from app.scheduling.store.codec import UnknownEvent, decode, encode_all
from app.scheduling.store.conflicts import PredecessorMissing, TurnLost, told_conflicts
from app.scheduling.store.pages import FOLDED_BYTES, LISTED_BYTES, LogPart

_LAST_POSSIBLE_SEQ = (1 << 63) - 1
_AT_ONCE = 100
"""The number of events that are decoded together, if they are small, which takes less than a millisecond."""
_BYTES_AT_ONCE = 1 << 17

# A number that tells the contents of an event from others. PostgreSQL computes it, over its own form of the JSON.
_DIGEST = "hashtextextended(kind || data::text, 0)"
# Inserts nothing if the preceding event is missing, or another one than the writer knows. A process that still knows a
# log from before it was put back, or under another cloud's number, must not leave a gap, nor decide over lost events.
_APPEND = f"""
WITH added AS (
    INSERT INTO event (cloud_id, seq, kind, version, data)
    SELECT %(cloud_id)s, %(before)b::bigint + place, kind, version, data
    FROM ROWS FROM (
        unnest(%(kinds)s::text[]), unnest(%(versions)s::smallint[]), jsonb_array_elements(%(data)s::jsonb)
    ) WITH ORDINALITY AS new (kind, version, data, place)
    WHERE %(before)b::bigint = 0 OR EXISTS (
        SELECT FROM event WHERE cloud_id = %(cloud_id)s AND seq = %(before)b::bigint
        AND (%(digest)b::bigint IS NULL OR {_DIGEST} = %(digest)b::bigint)
    )
    RETURNING CASE WHEN seq = %(last)b::bigint THEN {_DIGEST} END AS digest
)
SELECT count(*), max(digest) FROM added
"""
_TURN_WAIT_MS = 1000
"""The longest wait for a turn. Turns are optional, and the holder may have been stopped, so writers go on without."""
_TAKE_TURN = f"""
SELECT set_config('lock_timeout', '{_TURN_WAIT_MS}', true), pg_advisory_xact_lock(%(a)s, %(b)s)
"""
_AFTER = pages.after(_DIGEST)
_COLUMNS = "SELECT seq, kind, version, data::text FROM event"
_OF_INSTANCES = "WHERE cloud_id = %(cloud_id)s AND instance_id = ANY(%(instance_ids)s::text[])"
# The kinds are part of the text, not parameters, so that PostgreSQL can use the partial indexes.
_STARTS_OF = f"{_COLUMNS} {_OF_INSTANCES} AND kind IN {STARTS}"
_SHORT = "(data - 'allowed')::text"
"""A start without the nodes that it was allowed to take, which may be most of it."""
_ENDS_OF = f"{_COLUMNS} {_OF_INSTANCES} AND kind IN {ENDS}"
_OF_INSTANCE = "WHERE cloud_id = %(cloud_id)s AND instance_id = %(instance_id)s"
_NOTICES_OF = f"""
({_COLUMNS} {_OF_INSTANCE} AND kind IN {NOTICES} ORDER BY seq DESC LIMIT %(limit)s) UNION ALL
({_COLUMNS} {_OF_INSTANCE} AND kind IN ('{"', '".join(ENDINGS)}') ORDER BY seq DESC LIMIT %(limit)s)
ORDER BY seq DESC LIMIT %(limit)s
"""
_AT = f"{_COLUMNS} WHERE cloud_id = %(cloud_id)s AND seq = ANY(%(seqs)b::bigint[])"
_POLICY_AT = f"""
{_COLUMNS} WHERE cloud_id = %(cloud_id)s AND seq <= %(seq)s AND kind IN {POLICIES} ORDER BY seq DESC LIMIT 1
"""
_FLAVORS = f"""
{_COLUMNS} WHERE cloud_id = %(cloud_id)s AND kind = 'flavor_added' AND data->>'flavor' = ANY(%(names)s::text[])
"""
_END = """
SELECT seq, (data->>'at_us')::bigint FROM event WHERE cloud_id = %(cloud_id)s ORDER BY seq DESC LIMIT 1
"""
_HIGHEST_EPOCH = f"""
SELECT coalesce((
    SELECT (data->'basis'->>'epoch')::bigint FROM event WHERE cloud_id = %(cloud_id)s AND seq > %(after_seq)s
    AND kind IN {(*STARTS, *EXTENSIONS)} AND data->'basis'->>'epoch' IS NOT NULL ORDER BY seq DESC LIMIT 1
), 0)
"""
_MARK_AT = f"SELECT seq, {_DIGEST} FROM event WHERE cloud_id = %(cloud_id)s AND seq = %(seq)s"
_LAST_MARK = f"SELECT seq, {_DIGEST} FROM event WHERE cloud_id = %(cloud_id)s ORDER BY seq DESC LIMIT 1"
_LOOK = f"""
SELECT seq, {_DIGEST} FROM event WHERE cloud_id = %(cloud_id)s
AND seq IN (%(known_seq)s, (SELECT max(seq) FROM event WHERE cloud_id = %(cloud_id)s)) ORDER BY seq
"""
_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM event WHERE cloud_id = %(cloud_id)s"


class EventMark(NamedTuple):
    """An event's seq, and a number that tells its contents from those of other events."""

    seq: int
    digest: int


NO_EVENT = EventMark(0, 0)
"""The mark of an empty log."""


class LogAccess:
    """Reads and appends, over the pool or over one connection.

    Every method raises LogUnavailable if the database cannot be reached. Those that read events raise LogNewer if a
    newer version of the service wrote one of them.
    """

    def __init__(self, connections: Database | Session) -> None:
        self._connections = connections

    @property
    def log_format(self) -> int:
        """Return the newest log format that may be written, as far as this process knows."""
        return self._connections.newer.log_format

    async def append(self, cloud_id: int, recorded: Sequence[Recorded], before: EventMark | None = None) -> EventMark:
        """Make the events durable, all or none, and return the mark of the last.

        Raises SeqConflict or InstanceTaken if they do not fit the log, PredecessorMissing if the event before the first
        is missing, or is not that of `before` (None: whichever it is), and FormatNotInForce if the log format in force
        cannot hold an event. After LogUnavailable it is unknown whether the events were kept: read the tail before
        anything else.
        """
        self._connections.newer.check()
        kinds = [REGISTERED[type(item.event)] for item in recorded]
        parameters = {
            "cloud_id": cloud_id,
            "kinds": f"{{{','.join([kind.name for kind in kinds])}}}",
            "versions": f"{{{','.join([str(kind.version) for kind in kinds])}}}",
            "data": encode_all([item.event for item in recorded], self.log_format).decode(),
            "before": recorded[0].seq - 1,
            "digest": before and before.digest,
            "last": recorded[-1].seq,
        }
        # One statement for any number of events, one text for each column: lists cost the driver more than all else.
        with told_conflicts():
            ((added, digest),) = await self._connections.execute_directly(_APPEND, parameters)
        if added != len(recorded):
            raise PredecessorMissing(f"event {recorded[0].seq - 1} of cloud {cloud_id} is not the one that was known")
        return EventMark(recorded[-1].seq, int(digest))

    async def tail(self, cloud_id: int, after_seq: int, limit: int, most_bytes: int = FOLDED_BYTES) -> LogPart:
        """Return the next events after a seq, at most `limit`."""
        parameters = {"cloud_id": cloud_id, "after_seq": after_seq, "up_to_seq": after_seq + limit}
        return await self._part(pages.TAIL, parameters, most_bytes)

    async def after(
        self, cloud_id: int, known: EventMark, limit: int, most_bytes: int = FOLDED_BYTES
    ) -> tuple[LogPart, EventMark]:
        """Return the next events after a known one, at most `limit`, and the mark of the last, or the known one.

        Raises PredecessorMissing if the log lacks the known event, LogBroken at a gap that is not wider than `limit`.
        """
        await self.check_readable(cloud_id)
        place = {"known": known.seq, "up_to_seq": known.seq + limit}
        parameters = {"cloud_id": cloud_id, **place, "most_bytes": most_bytes}
        rows = await self._connections.execute_directly(_AFTER, parameters)
        if known != NO_EVENT and (not rows or (rows[0][0], rows[0][5]) != known):
            raise PredecessorMissing(f"event {known.seq} of cloud {cloud_id} is not the one that was known")
        new = rows if known == NO_EVENT else rows[1:]
        found = await self._recorded_in_turns(cloud_id, new)
        for before, item in enumerate(found, known.seq):
            if item.seq != before + 1:
                raise LogBroken.between(cloud_id, before, item.seq)
        return found, EventMark(found[-1].seq, int(rows[-1][5])) if found else known

    async def mark_at(self, cloud_id: int, seq: int) -> EventMark:
        """Return the mark of the event at a seq, NO_EVENT if there is none."""
        return await self._mark(_MARK_AT, {"cloud_id": cloud_id, "seq": seq})

    async def last_mark(self, cloud_id: int) -> EventMark:
        """Return the mark of the newest event, NO_EVENT if there is none."""
        return await self._mark(_LAST_MARK, {"cloud_id": cloud_id})

    async def _mark(self, sql: str, parameters: dict[str, Any]) -> EventMark:
        rows = await self._connections.execute_directly(sql, parameters)
        return EventMark(*rows[0]) if rows else NO_EVENT

    async def of_kinds(
        self, cloud_id: int, after_seq: int, up_to_seq: int, kinds: Sequence[str], limit: int, most_bytes: int
    ) -> LogPart:
        """Return the next events of these kinds after a seq, up to another, at most `limit`.

        Raises LogNewer if there is an event of an unknown kind, because that kind may be wanted too.
        """
        parameters = {
            "cloud_id": cloud_id,
            "after_seq": after_seq,
            "up_to_seq": up_to_seq,
            "kinds": list(kinds),
            "known": list(KINDS),
            "limit": limit,
        }
        return await self._part(pages.OF_KINDS, parameters, most_bytes)

    async def starts(self, cloud_id: int, instance_ids: Sequence[str], *, whole: bool = False) -> dict[str, Recorded]:
        """Return the decisions on these instances' starts, by instance id, without ids that were never requested.

        Only whole ones tell the nodes that a start was allowed to take.
        """
        sql = _STARTS_OF if whole else _STARTS_OF.replace("data::text", _SHORT)
        return await self._of_instances(sql, cloud_id, instance_ids)

    async def ends(self, cloud_id: int, instance_ids: Sequence[str]) -> dict[str, Recorded]:
        """Return the stops and evictions of these instances, by instance id, without those that have not ended."""
        return await self._of_instances(_ENDS_OF, cloud_id, instance_ids)

    async def notices(self, cloud_id: int, instance_id: str, limit: int) -> list[Recorded]:
        """Return the newest notices on an instance, at most `limit`, in log order."""
        parameters = {"cloud_id": cloud_id, "instance_id": instance_id, "limit": limit}
        return (await self.query(_NOTICES_OF, parameters))[::-1]

    async def started_page(
        self, cloud_id: int, after_seq: int, limit: int, market: Market | None = None, project: str | None = None
    ) -> LogPart:
        """Return the next decisions on starts after a seq, at most `limit`, of one market and project or of all."""
        parameters = {"cloud_id": cloud_id, "after_seq": after_seq, "limit": limit}
        asked = {"market": market and market.value, "project": project}
        return await self._part(pages.started(project), {**parameters, **asked}, LISTED_BYTES)

    async def admitted_spot(self, cloud_id: int, after_seq: int, up_to_seq: int) -> LogPart:
        """Return the accepted spot starts after one seq, up to another."""
        parameters = {"cloud_id": cloud_id, "after_seq": after_seq, "up_to_seq": up_to_seq}
        return await self._part(pages.ADMITTED_SPOT, parameters, FOLDED_BYTES)

    async def newest(
        self,
        cloud_id: int,
        kinds: Sequence[str],
        before_seq: int | None,
        from_seq: int,
        limit: int,
        market: Market | None = None,
    ) -> LogPart:
        """Return the newest events of these kinds before a seq (None: of all) down to another, newest first.

        With a market, starts of the other one are left out; ends do not name theirs.
        """
        before = _LAST_POSSIBLE_SEQ if before_seq is None else before_seq
        parameters = {
            "cloud_id": cloud_id,
            "from_seq": from_seq,
            "before_seq": before,
            "limit": limit,
            "market": market and market.value,
        }
        return await self._part(pages.newest(kinds), parameters, LISTED_BYTES)

    async def at(self, cloud_id: int, seqs: Sequence[int], *, whole: bool = True) -> dict[int, Recorded]:
        """Return the events at these seqs, without those beyond the log's end. Whole ones are as in `starts`."""
        sql = _AT if whole else _AT.replace("data::text", _SHORT)
        found = await self.query(sql, {"cloud_id": cloud_id, "seqs": list(seqs)}) if seqs else []
        return {item.seq: item for item in found}

    async def policy_at(self, cloud_id: int, seq: int) -> Policy:
        """Return the policy in force at a seq. Raises LogBroken if the log has no beginning."""
        for found in await self.query(_POLICY_AT, {"cloud_id": cloud_id, "seq": seq}):
            assert isinstance(found.event, CloudCreated | PolicyChanged)
            return found.event.policy
        raise LogBroken.between(cloud_id, 0, 2)

    async def flavors(self, cloud_id: int, names: Sequence[str]) -> dict[str, Resources]:
        """Return the resource vectors of these flavors, by name."""
        found = await self.query(_FLAVORS, {"cloud_id": cloud_id, "names": list(names)})
        added = [item.event for item in found]
        return {event.flavor: event.demand for event in added if isinstance(event, FlavorAdded)}

    async def last_seq(self, cloud_id: int) -> int:
        """Return the newest event's seq; 0 if the log is empty."""
        rows = await self._connections.execute(_LAST_SEQ, {"cloud_id": cloud_id})
        return int(rows[0][0])

    async def check_reaches(self, cloud_id: int, seq: int) -> None:
        """Raise LogPutBack if the log ends before a seq that a reader has from it."""
        last_seq = await self.last_seq(cloud_id)
        if seq > last_seq:
            raise LogPutBack.beyond(seq, last_seq)

    async def look(self, cloud_id: int, known: EventMark) -> tuple[EventMark, bool]:
        """Return the newest event's mark, and True if the log still holds the event of the known one."""
        rows = await self._connections.execute(_LOOK, {"cloud_id": cloud_id, "known_seq": known.seq})
        found = [EventMark(*row) for row in rows]
        return found[-1] if found else NO_EVENT, known == NO_EVENT or known in found

    async def highest_epoch(self, cloud_id: int, after_seq: int) -> int:
        """Return the highest epoch of a table that a start after a seq rests on; 0 if there is none."""
        rows = await self._connections.execute(_HIGHEST_EPOCH, {"cloud_id": cloud_id, "after_seq": after_seq})
        return int(rows[0][0])

    async def end(self, cloud_id: int) -> tuple[int, int]:
        """Return the newest event's seq and time in microseconds; (0, 0) if the log is empty."""
        rows = await self._connections.execute_directly(_END, {"cloud_id": cloud_id})
        return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)

    async def _of_instances(self, sql: str, cloud_id: int, instance_ids: Sequence[str]) -> dict[str, Recorded]:
        found = await self.query(sql, {"cloud_id": cloud_id, "instance_ids": list(instance_ids)})
        return {item.event.instance_id: item for item in found}  # type: ignore[union-attr]

    async def check_readable(self, cloud_id: int) -> None:
        """Raise LogNewer if this process has met an event of the cloud that it cannot read, and it is still there."""
        met = self._connections.newer.find(cloud_id)
        if met is not None:
            rows = await self._connections.execute_directly(_AT, {"cloud_id": cloud_id, "seqs": [met.seq]})
            for row in rows:
                self._recorded(cloud_id, row)
            self._connections.newer.forget(cloud_id)

    async def query(self, sql: str, parameters: dict[str, Any]) -> list[Recorded]:
        """Return the events of a query for one cloud that has the columns of events."""
        cloud_id = parameters["cloud_id"]
        await self.check_readable(cloud_id)
        return await self._recorded_in_turns(cloud_id, await self._connections.execute_directly(sql, parameters))

    async def _part(self, sql: str, parameters: dict[str, Any], most_bytes: int) -> LogPart:
        await self.check_readable(cloud_id := parameters["cloud_id"])
        rows = await self._connections.execute_directly(sql, parameters | {"most_bytes": most_bytes})
        return await self._recorded_in_turns(cloud_id, rows)

    async def _recorded_in_turns(self, cloud_id: int, rows: Tuples) -> LogPart:
        found = LogPart()
        with Turns() as turns:
            count = size = 0
            for row in rows:
                count, size = count + 1, size + len(row[3])
                if (count > _AT_ONCE or size > _BYTES_AT_ONCE) and found and turns.is_due():
                    await turns.give()
                    count = size = 0
                found.append(self._recorded(cloud_id, row))
        found.is_cut = bool(rows) and rows[-1][4:5] == (True,)
        return found

    def _recorded(self, cloud_id: int, row: tuple[Any, ...]) -> Recorded:
        seq, kind, version, data, *_ = row
        try:
            return Recorded(seq, decode(kind, version, data))
        except UnknownEvent as error:
            raise self._connections.newer.meet(cloud_id, seq, str(error)) from error


class EventLog(LogAccess):
    """The log over the pool, and turns at it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._database = database

    async def check_all_readable(self) -> None:
        """Raise LogNewer while this process knows of a cloud that it cannot read."""
        count = 0
        for cloud_id in self._connections.newer.clouds():
            try:
                await self.check_readable(cloud_id)
            except LogNewer:
                count += 1
        if count:
            raise LogNewer(
                f"a newer version of Tenure wrote what this one does not know into the log of {count} "
                f"{'cloud' if count == 1 else 'clouds'}: run that version here too"
            )

    @asynccontextmanager
    async def locked(self, cloud_id: int) -> AsyncIterator[LogTurn]:
        """Yield a turn, which only one writer has at a time. Events appended in it are committed at its end.

        Raises TurnLost if the turn did not come in time or lasted too long; nothing was kept.
        """
        try:
            async with self._database.transaction() as session:
                await session.execute(_TAKE_TURN, dict(zip("ab", log_lock(cloud_id), strict=True)))
                yield LogTurn(session, cloud_id)
        except LogUnavailable as error:
            if is_taken_back(error):
                raise TurnLost from error
            raise


class LogTurn(LogAccess):
    """A writer's turn at one cloud's log; see `EventLog.locked`.

    During a turn, read only through it: it holds a connection of the pool and must not wait for a second one.
    """

    def __init__(self, session: Session, cloud_id: int) -> None:
        super().__init__(session)
        self._cloud_id = cloud_id

    async def append(self, cloud_id: int, recorded: Sequence[Recorded], before: EventMark | None = None) -> EventMark:
        """Append like `LogAccess.append`, but durable only at the turn's end."""
        if cloud_id != self._cloud_id:
            raise AssertionError(f"the turn is cloud {self._cloud_id}'s, not cloud {cloud_id}'s")
        return await super().append(cloud_id, recorded, before)
