"""The event log as CSV, one line per event: written by `evaluate --log` and `log export`, read by `audit`.

Times are seconds, written as the shortest exact decimals. A cell that does not apply is empty. The first columns and
the four instance kinds are stable for readers of such files; columns may be added at the end. Lines of a stop and of an
eviction repeat what their start said.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from app.domain.budgets import Book, Budget
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceStarted,
    InstanceStopped,
    PolicyChanged,
    Recorded,
    StartDecision,
)
from app.domain.events.kinds import Group
from app.domain.events.registry import EXTENSIONS, KINDS, kind_of
from app.domain.inputs import InputError, parse_number, parse_whole
from app.domain.jobs import DataObject, LinkRate, OutputObject
from app.domain.times import parse_seconds, seconds_text
from app.domain.values import Acceptable, Floor, Market, Policy, ProposedMove, QuotaUse, Resources
from app.domain.wanted import Wanted
from app.workbench.csvfigures import (
    read_acceptable,
    read_book,
    read_budget,
    read_floor,
    read_link,
    read_moves,
    read_objects,
    read_quota,
    read_wanted,
)
from app.workbench.logcells import COMPOSED, NO_STRATA, Cells
from app.workbench.logcolumns import COLUMNS, PROMISED_COLUMNS
from app.workbench.workload import CSV_HEADER

T = TypeVar("T")


class LogRow(NamedTuple):
    """One line of the file, times in microseconds; empty cells are None."""

    seq: int
    at_us: int
    kind: str
    instance_id: str | None
    market: str | None
    demand: Resources
    lifetime_us: int | None
    node: str | None
    reason: str | None
    cause_seq: int | None
    epoch: int | None
    slots: int | None
    probability: float | None
    quoted_lifetime_us: int | None
    eviction_policy: str | None
    guarantee: str | None
    flavor: str | None = None
    estimated_probability: float | None = None
    budget: Budget | None = None
    probability_bound: float | None = None
    deadline_us: int | None = None
    ready_us: int | None = None
    grace_us: int | None = None
    threshold: float | None = None
    risk: float | None = None
    placement: str | None = None
    strata_us: tuple[int, ...] | None = None
    book: Book | None = None
    former_lifetime_us: int | None = None
    total_risk: float | None = None
    forecast: str | None = None
    wanted: Wanted | None = None
    limited_by: str | None = None
    automatic: str | None = None
    windows: float | None = None
    min_windows: int | None = None
    enough_us: int | None = None
    floor: Floor | None = None
    owner: str | None = None
    owner_cores: int | None = None
    owner_share: float | None = None
    overrunning_cores: int | None = None
    displaces_overrunning: bool | None = None
    overrun_share: float | None = None
    quota: QuotaUse | None = None
    acceptable: Acceptable | None = None
    members: int | None = None
    nodes: tuple[str, ...] | None = None
    former_node: str | None = None
    unit: str | None = None
    moves: tuple[ProposedMove, ...] | None = None
    gives_back: bool | None = None
    job: str | None = None
    peer: str | None = None
    attempt: int | None = None
    end: str | None = None
    last: str | None = None
    reclaim_us: int | None = None
    until_us: int | None = None
    ends_us: int | None = None
    federate: str | None = None
    peers: str | None = None
    allowed: tuple[str, ...] | None = None
    project: str | None = None
    user: str | None = None
    observed: str | None = None
    aborted: str | None = None
    as_flavor: str | None = None
    inputs: tuple[DataObject | OutputObject, ...] | None = None
    outputs: tuple[DataObject | OutputObject, ...] | None = None
    stage_us: int | None = None
    data_bytes: int | None = None
    goes_first: str | None = None
    link: LinkRate | None = None

    @property
    def machine_count(self) -> int:
        """The number of machines: the members of a group, else 1."""
        return self.members or 1

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node or "",)


# --- writing ---------------------------------------------------------------------------------------------------------


class LogWriter:
    """Writes events as they come. Every event of the log must be given to `write`, in order.

    `instances_only` leaves out all other kinds and numbers the written ones 1, 2, 3, ... The other events must then
    stand before the first instance event, as in an evaluation.
    """

    def __init__(self, file: TextIO, *, instances_only: bool = False) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._instances_only = instances_only
        self._left_out = 0
        self._flavors: dict[str, Cells] = {}
        self._started: dict[str, Cells] = {}
        self._policy = Policy()

    def write(self, recorded: Recorded) -> None:
        """Write one event."""
        event, kind = recorded.event, kind_of(recorded.event)
        cells = self._repeated(event) | _own_cells(event)
        self._remember(event, cells)
        if self._instances_only and not (kind.startswith("instance_") or kind in EXTENSIONS):
            self._left_out += 1
            return
        if "cause_seq" in cells:
            cells["cause_seq"] -= self._left_out
        head = [recorded.seq - self._left_out, seconds_text(event.at_us), kind]
        self._writer.writerow([*head, *map(cells.get, _CELLS)])

    def _repeated(self, event: Event) -> Cells:
        """Return what the line repeats of earlier events: of its instance's start, and of the rule in force."""
        if isinstance(event, StartDecision):
            on_demand = event.market is Market.ON_DEMAND
            name = "eviction_policy" if on_demand else "forecast"
            policy: Cells = {name: getattr(self._policy, name)}
            if isinstance(event, InstanceStarted):
                policy["placement"] = self._policy.placement
            return self._flavors[event.flavor] | policy
        repeated = self._started.get(getattr(event, "instance_id", ""), {})
        if isinstance(event, InstanceMoved) and event.as_flavor is not None:
            return repeated | self._flavors[event.as_flavor]
        if isinstance(event, InstanceEvicted):
            return repeated | {"eviction_policy": self._policy.eviction_policy}
        return repeated

    def _remember(self, event: Event, cells: Cells) -> None:
        match event:
            case CloudCreated() | PolicyChanged():
                self._policy = event.policy
            case FlavorAdded():
                self._flavors[event.flavor] = _own_cells(event)
            case InstanceStarted():
                self._started[event.instance_id] = {name: cells[name] for name in _OF_START if name in cells}
            case InstanceExtended():
                self._started[event.instance_id]["lifetime_s"] = cells["lifetime_s"]
            case InstanceMoved():
                self._started[event.instance_id] |= {name: cells[name] for name in _OF_START if name in cells}
            case InstanceStopped() | InstanceEvicted():
                del self._started[event.instance_id]


def _own_cells(event: Event) -> Cells:
    """Return the cells that hold the event's own fields, without those that are None."""
    cells: Cells = {}
    for name, write in _FIELDS_OF[type(event)]:
        value = getattr(event, name)
        if value is not None:
            write(cells, value)
    return cells


def _writer_of(field: str) -> Callable[[Cells, Any], None]:
    """Return a function that puts the values of a field into their columns."""
    if field in COMPOSED:
        return COMPOSED[field]
    column = _COLUMN_OF.get(field, field.removesuffix("_us") + "_s" if field.endswith("_us") else field)
    convert = seconds_text if field.endswith("_us") else None
    return lambda cells, value: cells.__setitem__(column, convert(value) if convert else value)


_COLUMN_OF = {"level": "reason", "probability": "risk", "cores": "owner_cores", "share": "owner_share"} | {
    **dict.fromkeys(("word", "why"), "end"),
    "eviction_probability": "probability",
}
_UNWRITTEN = {"at_us", "victims", "afterwards"}
"""The first stands in every line; the others are the evictions before the start, and what is always the same."""
_OF_START = (
    "instance_id",
    "market",
    "flavor",
    "lifetime_s",
    *Resources._fields,
    "eviction_policy",
    "node",
    "members",
    "nodes",
)
"""The cells that later lines of the instance repeat."""
_CELLS = COLUMNS[3:]
_FIELDS_OF = {
    kind.form: tuple(
        (field.name, _writer_of(field.name))
        for field in fields(kind.form)
        # The probability that a start asked for is not written: the column holds the promised one.
        if field.name not in _UNWRITTEN and not (field.name == "probability" and kind.group is Group.START)
    )
    for kind in KINDS.values()
}


# --- reading ---------------------------------------------------------------------------------------------------------


def read_log(path: Path) -> Iterator[LogRow]:
    """Read the lines of a log file. Raises InputError with the number of an unreadable line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from (row for _, row in read_rows(file, str(path)))
    except OSError as error:
        raise unread(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from error


def unread(path: Path, error: OSError) -> InputError:
    """Return the error for a log that cannot be opened; of a folder, with a log that it holds."""
    held = sorted(one.name for one in path.glob("*.csv")) if isinstance(error, IsADirectoryError) else []
    if not held:
        return InputError(f"{path}: {error.strerror}")
    logs = "log" if len(held) == 1 else "logs"
    return InputError(f"{path}: is a folder with {len(held)} {logs}; name one, such as {path / held[0]}")


def read_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, LogRow]]:
    """Yield the rows of a log, each with its line's number. The header comes first; `name` is for errors."""
    reader = csv.DictReader(lines, strict=True)
    try:
        _check_header(reader.fieldnames or (), name)
        for cells in reader:
            yield reader.line_num, _row(cells, f"{name}, line {reader.line_num}")
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num + 1}: is not a CSV file: {error}") from error


def _check_header(columns: Sequence[str], name: str) -> None:
    if [*columns] == CSV_HEADER or " ".join(columns[:1]).startswith("START "):
        writers = "`tenure log export` and `tenure evaluate --log` write one"
        raise InputError(f"{name}: this is a workload, not a log; {writers}")
    missing = [column for column in PROMISED_COLUMNS if column not in columns]
    if missing:
        raise InputError(f"{name}, line 1: the columns {', '.join(missing)} are missing")


def _row(cells: Cells, place: str) -> LogRow:
    if None in cells or None in cells.values():
        raise InputError(f"{place}: the line has not as many cells as there are columns")
    try:
        values = {field: parse(text) if (text := cells.get(column)) else None for column, field, parse in _READ}
        return LogRow(
            seq=parse_whole(cells["seq"]),
            at_us=parse_seconds(cells["at_s"]),
            kind=cells["kind"],
            demand=Resources(*(parse_whole(cells.get(name) or "0") for name in Resources._fields)),
            budget=read_budget(cells) if cells.get("charge") else None,
            book=read_book(cells) if cells.get("risky") else None,
            wanted=read_wanted(cells) if cells.get("wanted_lifetime_s") else None,
            quota=read_quota(cells) if cells.get("quota") else None,
            acceptable=read_acceptable(cells) if cells.get("acceptable_lifetime_s") else None,
            link=read_link(cells) if cells.get("link_bytes_per_s") else None,
            floor=read_floor(cells) if cells.get("windows") and cells.get("min_windows") else None,
            **values,
        )
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _read_strata(text: str) -> tuple[int, ...]:
    return () if text == NO_STRATA else tuple(map(parse_seconds, text.split()))


def _reader_of(column: str) -> tuple[str, Callable[[str], Any]]:
    """Return the field of a row that a column fills, and the function that reads its text."""
    if column == "strata_s":
        return "strata_us", _read_strata
    if column == "budget":
        return "unit", str
    if column in {"nodes", "allowed"}:
        return column, lambda text: tuple(text.split())
    if column.endswith("_s"):
        return column.removesuffix("_s") + "_us", parse_seconds
    return column, _NUMBERS.get(column, str)


_NUMBERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("cause_seq", "epoch", "slots", "members", "min_windows", "attempt", "data_bytes"), parse_whole),
    **dict.fromkeys(("probability", "estimated_probability", "probability_bound"), parse_number),
    **dict.fromkeys(("threshold", "risk", "total_risk", "owner_share", "overrun_share", "windows"), parse_number),
    **dict.fromkeys(("owner_cores", "overrunning_cores"), parse_whole),
    **dict.fromkeys(("displaces_overrunning", "gives_back"), lambda text: text == "yes"),
    "moves": read_moves,
    **dict.fromkeys(("inputs", "outputs"), read_objects),
}
_READ = [
    (column, *_reader_of(column)) for column in _CELLS if _reader_of(column)[0] in LogRow._fields and column != "quota"
]
