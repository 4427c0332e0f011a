"""Nova's databases, read once from end to end: one for each cell, cell0 among them. Nothing is written.

Each database is read in one transaction that reads only and sees one moment. Rows come by pages in the order of their
numbers, so that no statement runs for long; `archive_deleted_rows` of Nova moves rows into *shadow* tables, which are
read as well. What happened to servers is collected first, in a temporary file: Nova's events have no index by server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.servers import OvercommitRatios, ServerNode, ServerRecord, ServerRecordEnd
from app.domain.values import Resources
from app.nova.past.source import ServerPieces
from app.nova.past.splitting import NovaFlavor, NovaServer, ServerMark, flavor_of, stretches_of
from app.nova.past.store.marksfile import MarksFile

_PAGE = 5_000
_EVENT_WINDOW = 100_000
_ACTIONS_AT_ONCE = 1_000
_TABLES = ("", "shadow_")
_CONNECT_S = 10
_EVENTS = ", ".join(f"'{mark}'" for mark in ServerMark)
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_BEGIN = {
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "mysql": "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
}
_TIME = {
    # A number has no infinity, which such a time may be: -1 then.
    "postgresql": "CASE WHEN {0} IS NULL THEN NULL WHEN {0} BETWEEN '1970-01-01' AND '9999-12-31'"
    " THEN CAST(extract(epoch FROM {0}) * 1000000 AS bigint) ELSE -1 END",
    "mysql": "timestampdiff(MICROSECOND, '1970-01-01', {0})",
}
_ENDED = "CASE WHEN deleted <> 0 THEN coalesce(terminated_at, deleted_at, updated_at) END"
_SERVERS = f"""
SELECT id, uuid, vcpus, memory_mb, root_gb, ephemeral_gb, instance_type_id, {{time[created_at]}}, {{time[launched_at]}},
       {{time[{_ENDED}]}}, host, vm_state
FROM {{prefix}}instances WHERE id > :after AND NOT coalesce(hidden, false) ORDER BY id LIMIT :page
"""
_SIZES = """
SELECT instance_type_id, max(uuid) FROM {prefix}instances WHERE instance_type_id IS NOT NULL GROUP BY instance_type_id
"""
_FLAVOR = """
SELECT i.vcpus, i.memory_mb, i.root_gb, i.ephemeral_gb, e.flavor
FROM {prefix}instances i LEFT JOIN {prefix}instance_extra e ON e.instance_uuid = i.uuid WHERE i.uuid = :uuid
"""
_API_FLAVORS = "SELECT id, vcpus, memory_mb, root_gb, ephemeral_gb FROM flavors"
_EVENT_BOUNDS = "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM {prefix}instance_actions_events"
_MARKS = f"""
SELECT action_id, {{time[finish_time]}}, event FROM {{prefix}}instance_actions_events
WHERE id > :after AND id <= :last AND event IN ({_EVENTS}) AND result = 'Success' AND finish_time IS NOT NULL
"""
_ACTIONS = "SELECT id, instance_uuid FROM {prefix}instance_actions WHERE id IN ({ids})"
_CHANGES = """
SELECT id, instance_uuid, {time[created_at]}, old_instance_type_id, new_instance_type_id FROM {prefix}migrations
WHERE id > :after AND old_instance_type_id <> new_instance_type_id AND instance_uuid IS NOT NULL
      AND created_at IS NOT NULL
ORDER BY id LIMIT :page
"""
_FIRST_END = f"""
SELECT {{time[min(CASE WHEN {_ENDED} > '1970-01-02' THEN {_ENDED} END)]}} FROM {{prefix}}instances
WHERE launched_at IS NOT NULL
"""
_ROWS = "SELECT count(*) FROM {prefix}instances"
_NODES = """
SELECT hypervisor_hostname, vcpus, memory_mb, local_gb, cpu_allocation_ratio, ram_allocation_ratio,
       disk_allocation_ratio, {time[created_at]}, {time[CASE WHEN deleted <> 0 THEN deleted_at END]}
FROM {prefix}compute_nodes WHERE vcpus > 0 AND hypervisor_hostname IS NOT NULL ORDER BY created_at, id
"""
_NOW = {
    "postgresql": "SELECT " + _TIME["postgresql"].format("clock_timestamp() AT TIME ZONE 'UTC'"),
    "mysql": "SELECT " + _TIME["mysql"].format("utc_timestamp(6)"),
}


_NovaRow = tuple[Any, ...]


class _Times:
    """Fills `{time[EXPRESSION]}` in a statement: microseconds since 1970 of a time, in a database's own words."""

    def __init__(self, dialect: str) -> None:
        self._form = _TIME[dialect]

    def __getitem__(self, expression: str) -> str:
        return self._form.format(expression)


class _Table(NamedTuple):
    """A database that is being read, and the prefix of the tables: none, or that of the shadow tables."""

    connection: Connection
    prefix: str

    def rows(self, statement: str, ids: str = "", **values: object) -> Sequence[_NovaRow]:
        """Return the rows of a statement. `ids`: numbers, for a list of them in it."""
        times = _Times(self.connection.dialect.name)
        filled = statement.format(prefix=self.prefix, time=times, ids=ids)
        return cast("Sequence[_NovaRow]", self.connection.execute(text(filled), values).all())

    def pages(self, statement: str) -> Iterator[Sequence[_NovaRow]]:
        """Yield the rows by pages in the order of their numbers, which stand first in each."""
        after = 0
        while rows := self.rows(statement, after=after, page=_PAGE):
            yield rows
            after = rows[-1][0]


def check_url(written: str) -> URL:
    """Return a database's address with the driver that is here. Raises InputError if it is no such address."""
    try:
        url = make_url(written)
    except ArgumentError as error:
        raise InputError(
            "a database's address is written postgresql://USER:PASSWORD@HOST/NAME or mysql://..."
        ) from error
    if url.get_backend_name() not in _DRIVERS:
        raise InputError(f"Nova's databases are of PostgreSQL, MySQL or MariaDB, not of {url.get_backend_name()!r}")
    return url.set(drivername=_DRIVERS[url.get_backend_name()])


class NovaDatabases:
    """Nova's databases at one reading. `api` is the one of the API, which knows the sizes of flavors nobody uses."""

    def __init__(self, cells: Sequence[URL], api: URL | None, since_us: int | None) -> None:
        self._cells = cells
        self._api = api
        self._since_us = since_us
        self._flavors: dict[int, NovaFlavor] = {}

    def pieces(self, progress: Progress | None = None) -> ServerPieces:
        """Yield the past. Raises InputError if a database cannot be read, or is none of Nova's."""
        with ExitStack() as stack, told_of_databases():
            self._read_api()
            connections = [stack.enter_context(_reading(url)) for url in self._cells]
            tables = [_Table(connection, prefix) for prefix in _TABLES for connection in connections]
            marks = stack.enter_context(MarksFile())
            yield self._head(tables)
            for table in tables:
                self._read_flavors(table)
                self._read_marks(table, marks)
            marks.index()
            yield from self._stretches(tables, marks, progress)

    def _head(self, tables: Sequence[_Table]) -> ServerRecord:
        first_ends = [at_us for table in tables for (at_us,) in table.rows(_FIRST_END) if at_us is not None]
        dialect = tables[0].connection.dialect.name
        ((now_us,),) = tables[0].rows(_NOW[dialect])
        whole_from_us = self._since_us if self._since_us is not None else min(first_ends, default=0)
        rows = chain.from_iterable(table.rows(_NODES) for table in tables)
        return ServerRecord(whole_from_us, now_us, tuple(_node(row) for row in rows))

    def _read_api(self) -> None:
        if self._api is None:
            return
        with _reading(self._api) as connection:
            for flavor_id, *size in _Table(connection, "").rows(_API_FLAVORS):
                self._flavors[flavor_id] = NovaFlavor(_size(*size))

    def _read_flavors(self, table: _Table) -> None:
        for flavor_id, uuid in table.rows(_SIZES):
            known = self._flavors.get(flavor_id)
            if known is None or known.name is None:
                ((*size, kept), *_) = table.rows(_FLAVOR, uuid=uuid)
                self._flavors[flavor_id] = flavor_of(kept, _size(*size))

    def _read_marks(self, table: _Table, marks: MarksFile) -> None:
        ((first, last),) = table.rows(_EVENT_BOUNDS)
        for after in range(first - 1, last, _EVENT_WINDOW):
            found = table.rows(_MARKS, after=after, last=after + _EVENT_WINDOW)
            for place in range(0, len(found), _ACTIONS_AT_ONCE):
                marks.add_marks(_with_servers(table, found[place : place + _ACTIONS_AT_ONCE]))
        for rows in table.pages(_CHANGES):
            marks.add_changes(tuple(row[1:]) for row in rows)

    def _stretches(self, tables: Sequence[_Table], marks: MarksFile, progress: Progress | None) -> ServerPieces:
        total, done, duplicates = sum(table.rows(_ROWS)[0][0] for table in tables), 0, 0
        for table in tables:
            for rows in table.pages(_SERVERS):
                servers = [row[1] for row in rows]
                (happened, changed), were_noted = marks.of(servers), marks.note(servers)
                for row, was_noted in zip(rows, were_noted, strict=True):
                    if was_noted:
                        duplicates += 1
                        continue
                    with _named(table, row):
                        server = self._server(row)
                        mine = happened.get(server.uuid, ()), changed.get(server.uuid, ())
                        found = stretches_of(server, *mine, self._flavors)
                    yield from found
                done += len(rows)
                if progress is not None:
                    progress(done, total)
        yield ServerRecordEnd(done, duplicates)

    def _server(self, row: _NovaRow) -> NovaServer:
        _, uuid, *size, flavor_id, created_us, launched_us, ended_us, host, state = row
        flavor = self._flavors.get(flavor_id)
        held = _size(*size) if flavor is None else flavor.size
        return NovaServer(uuid, held, created_us or 0, launched_us, ended_us, host, state or "", flavor_id)


@contextmanager
def _named(table: _Table, row: _NovaRow) -> Iterator[None]:
    """Name the row whose values no rule can take."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        where = f"row {row[0]} of {table.prefix}instances, server {row[1]}"
        raise InputError(f"{where}, cannot be read: {error!r}") from error


@contextmanager
def told_of_databases() -> Iterator[None]:
    """Tell what a database answered, as an InputError; passwords are not told."""
    try:
        yield
    except NoSuchModuleError as error:
        raise InputError(f"{error}: install tenure[openstack]") from error
    except ModuleNotFoundError as error:
        raise InputError(f"the driver {error.name} is not installed: install tenure[openstack]") from error
    except DBAPIError as error:
        first = str(error.orig).strip().splitlines()
        raise InputError(f"a database of Nova cannot be read: {first[0] if first else error.orig!r}") from error


@contextmanager
def _reading(url: URL) -> Iterator[Connection]:
    """Open a database for one transaction that reads only and sees one moment."""
    connect_args: dict[str, Any] = {"connect_timeout": _CONNECT_S}
    engine = create_engine(url, isolation_level="AUTOCOMMIT", connect_args=connect_args)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(_BEGIN[connection.dialect.name])
            yield connection
            connection.exec_driver_sql("ROLLBACK")
    finally:
        engine.dispose()


def _with_servers(table: _Table, found: Sequence[Any]) -> list[tuple[str, int, str]]:
    """Return events with the servers that they happened to, by way of the actions that they are parts of."""
    ids = ", ".join({str(int(action_id)) for action_id, *_ in found if action_id is not None}) or "0"
    servers = dict(cast("Sequence[tuple[int, str]]", table.rows(_ACTIONS, ids)))
    return [(servers[action_id], at_us, event) for action_id, at_us, event in found if servers.get(action_id)]


def _size(cores: int | None, memory_mb: int | None, root_gb: int | None, ephemeral_gb: int | None) -> Resources:
    return Resources(cores or 0, memory_mb or 0, (root_gb or 0) + (ephemeral_gb or 0))


def _node(row: _NovaRow) -> ServerNode:
    name, cores, memory_mb, disk_gb, *ratios, added_us, removed_us = row
    # Nova writes 0 or nothing where nobody has told a ratio.
    told = OvercommitRatios(*(ratio or 1.0 for ratio in ratios))
    return ServerNode(name, Resources(cores, memory_mb, disk_gb), told, added_us or 0, removed_us)
