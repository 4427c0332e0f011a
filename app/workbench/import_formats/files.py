"""Reads recorded pasts line by line: five formats, told apart by their first line (docs/import.md).

A line that cannot be read raises an InputError that names it. A line that can be read but makes no sense falls under a
rule (importing/rules/pastrules.py). Only the scratch file is written.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.times import DAY_US, MAX_TIME_US, SECOND_US, parse_seconds, seconds_text
from app.domain.values import MOST_CORES, Market, Resources
from app.importing.past import Past, Sizes, is_name
from app.importing.rules.pastrules import PastRule
from app.importing.rules.records import FileLine, PastInstance
from app.workbench.import_formats.log import LOG_COLUMNS, read_past_log
from app.workbench.import_formats.servers import is_servers_head, parse_pieces, read_servers
from app.workbench.packed import unpacked
from app.workbench.workload import CSV_HEADER

_LONGEST_LINE = 4096
_LONGEST_US = 100 * 365 * DAY_US
_TELL_EVERY = 5_000
_MOST_PROCESSORS = 100_000_000
_MOST_NODES = 100_000
_MOST_RUNNING = 1_000_000
_COUNT = re.compile(r"[0-9]{1,12}")
_FEW = re.compile(r"[0-9]{1,11}")
_SWF_LABEL = re.compile(r";\s*(UnixStartTime|MaxNodes|MaxProcs)\s*:\s*([0-9]{1,12})\b")
_SWF_FIELDS = 18
_SWF_PARTIAL = ("2", "3", "4")
_SWF_CANCELLED = "5"
_UNKNOWN = -1

NumberedLines = Iterator[tuple[int, str]]


class _Source(NamedTuple):
    """The file that is being read, and the past that it fills."""

    past: Past
    file: int
    is_spot: bool

    def place(self, line: int) -> FileLine:
        return FileLine(self.file, line)

    def take(self, lines: tuple[int, int], name: str, times_us: tuple[int, int | None], flavor: str) -> None:
        """Keep an instance; its lines and times are those of its start and its end."""
        start_us, stop_us = times_us
        if stop_us is not None and stop_us - start_us > _LONGEST_US:
            told = f"{seconds_text(stop_us - start_us)} s, which is more than 100 years: are they milliseconds?"
            raise self.broken(lines[1], f"{name!r} ran for {told}")
        row = (self.file, *lines, self.is_spot, name, start_us, stop_us, None, flavor)
        self.past.take(PastInstance(*row))

    def broken(self, line: int, why: str) -> InputError:
        return InputError(f"{self.past.files[self.file]}, line {line}: {why}")


def read_past(past: Past, on_demand: Sequence[Path], spot: Sequence[Path], progress: Progress | None = None) -> None:
    """Read all files. Raises InputError with the line that cannot be read."""
    paths = [*on_demand, *spot]
    try:
        total = sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error
    done = 0
    for file, path in enumerate(paths):
        source = _Source(past, file, is_spot=file >= len(on_demand))
        past.markets.append(Market.SPOT if source.is_spot else Market.ON_DEMAND)

        def told(read: int, before: int = done) -> None:
            if progress is not None:
                progress(before + read, total)

        _read_file(source, _lines(path, told), alone=len(paths) == 1)
        done += path.stat().st_size


def _read_file(source: _Source, lines: NumberedLines, *, alone: bool) -> None:
    number, first = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    if not first:
        raise InputError(f"{source.past.files[source.file]}: the file is empty")
    whole = chain([(number, first)], lines)
    words, cells = first.split(), first.strip().split(",")
    if words and words[0] in ("START", "STOP"):
        source.past.formats.append("eucalyptus")
        _read_eucalyptus(source, whole, alone=alone)
    elif cells == CSV_HEADER:
        source.past.formats.append("csv")
        _read_jobs(source, lines)
    elif set(LOG_COLUMNS) <= set(cells):
        if not alone:
            raise source.broken(number, "a log is a whole past: import it alone")
        source.past.formats.append("log")
        source.past.markets[0] = "both"
        read_past_log(source.past, (line for _, line in whole))
    elif is_servers_head(first):
        _read_servers(source, whole, number, alone=alone)
    elif first.startswith(";") or len(words) == _SWF_FIELDS:
        source.past.formats.append("swf")
        _read_swf(source, whole)
    else:
        header = ",".join(CSV_HEADER)
        wanted = f"a START or STOP line, the header {header}, a log's header, a file of servers, or a line of SWF"
        raise source.broken(number, f"expected {wanted}")


def _read_servers(source: _Source, whole: NumberedLines, number: int, *, alone: bool) -> None:
    if not alone:
        raise source.broken(number, "a file of servers is a whole past: import it alone")
    source.past.formats.append("servers")
    source.past.markets[0] = "both"
    read_servers(source.past, parse_pieces(source.past.files[0], whole))


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines(path: Path, told: Callable[[int], None]) -> NumberedLines:
    """Yield the numbered lines of a text file, compressed by gzip or not."""
    number = 0
    try:
        with path.open("rb") as raw, unpacked(raw) as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise InputError(f"{path}, line {number}: is longer than {_LONGEST_LINE} bytes")
                if number % _TELL_EVERY == 0:
                    told(raw.tell())
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            told(raw.tell())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: is no text") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, line {number + 1}: the compressed file is broken here: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


# --- Eucalyptus ------------------------------------------------------------------------------------------------------


class _OpenInstance(NamedTuple):
    """A START line whose STOP has not come."""

    line: int
    at_us: int
    cores: int
    node: str


class _Eucalyptus:
    """Pairs START and STOP lines, and records how many cores each node held."""

    def __init__(self, source: _Source, sizes: Sizes) -> None:
        self._source = source
        self._sizes = sizes
        self._running: dict[str, _OpenInstance] = {}
        self._held: dict[str, int] = {}
        self.peaks: dict[str, int] = {}
        self._last_us = 0

    def line(self, number: int, text: str) -> None:
        """Take the next line."""
        source = self._source
        match text.split():
            case ["START", time, name, node, cores]:
                at_us = self._time(time, number)
                started = _OpenInstance(number, at_us, _whole(source, number, cores, "cores", MOST_CORES), node)
                self._start(_name(source, number, name), started)
            case ["STOP", time, name]:
                self._stop(number, self._time(time, number), name)
            case []:
                return
            case _:
                raise source.broken(number, "expected START time id node cores, or STOP time id")

    def end(self) -> None:
        """Keep the instances that still run, without an end."""
        for name, started in self._running.items():
            self._take(name, started, started.line, None)

    def _time(self, text: str, number: int) -> int:
        at_us = _seconds(self._source, number, text)
        if at_us < self._last_us:
            self._source.past.findings.add(PastRule.REORDERED, self._source.place(number))
        self._last_us = max(at_us, self._last_us)
        return at_us

    def _start(self, name: str, started: _OpenInstance) -> None:
        if name in self._running:
            self._source.past.findings.add(PastRule.START_WHILE_RUNNING, self._source.place(started.line))
            return
        if len(self._running) >= _MOST_RUNNING:
            raise self._source.broken(started.line, f"more than {_MOST_RUNNING} instances run at once")
        self._running[name] = started
        if started.node not in self._held and len(self._held) >= _MOST_NODES:
            raise self._source.broken(started.line, f"there are more than {_MOST_NODES} nodes")
        held = self._held[started.node] = self._held.get(started.node, 0) + started.cores
        self.peaks[started.node] = max(held, self.peaks.get(started.node, 0))
        widest = self._source.past.node_cores()
        if widest is not None and held > widest:
            self._source.past.findings.add(PastRule.OVERCOMMITTED, self._source.place(started.line))

    def _stop(self, number: int, at_us: int, name: str) -> None:
        started = self._running.pop(name, None)
        if started is None:
            self._source.past.findings.add(PastRule.STOP_WITHOUT_START, self._source.place(number))
            return
        self._held[started.node] -= started.cores
        self._take(name, started, number, at_us)

    def _take(self, name: str, started: _OpenInstance, end_line: int, stop_us: int | None) -> None:
        source = self._source
        flavor = source.past.flavor_of(started.cores, source.place(started.line), self._sizes)
        if flavor is not None:
            source.take((started.line, end_line), name, (started.at_us, stop_us), flavor)


def _read_eucalyptus(source: _Source, lines: NumberedLines, *, alone: bool) -> None:
    past = source.past
    if past.nodes is None and not alone:
        raise InputError("several files do not tell one platform: give it with --nodes, such as 31x32")
    reader = _Eucalyptus(source, past.wishes.sizes or Sizes())
    for number, line in lines:
        past.line_count += 1
        reader.line(number, line)
    reader.end()
    if past.nodes is None:
        past.nodes = [(node, Resources(reader.peaks[node])) for node in sorted(reader.peaks, key=_natural)]
        for name, _ in past.nodes:
            _name(source, 1, name)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which NODE2 comes before NODE10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]{1,18})", name)]


# --- start_s,lifetime_s,cores ----------------------------------------------------------------------------------------


def _read_jobs(source: _Source, lines: NumberedLines) -> None:
    past = source.past
    if past.nodes is None:
        raise InputError("the file does not tell the platform: give it with --nodes, such as 31x32")
    sizes = past.wishes.sizes or Sizes()
    past.line_count += 1
    for number, line in lines:
        past.line_count += 1
        cells = line.strip().split(",")
        if cells == [""]:
            continue
        if len(cells) != len(CSV_HEADER):
            raise source.broken(number, f"expected {','.join(CSV_HEADER)}")
        start_us = _seconds(source, number, cells[0])
        stop_us = start_us + _signed(source, number, cells[1]) if cells[1].strip() else None
        flavor = past.flavor_of(_whole(source, number, cells[2], "cores", MOST_CORES), source.place(number), sizes)
        if flavor is not None:
            source.take((number, number), f"past-{number - 1}", (start_us, stop_us), flavor)


# --- SWF, version 2.2 ------------------------------------------------------------------------------------------------


class _Swf:
    """Jobs of the Standard Workload Format (www.cs.huji.ac.il/labs/parallel/workload/swf.html)."""

    def __init__(self, source: _Source, sizes: Sizes) -> None:
        self._source = source
        self._sizes = sizes
        self._labels: dict[str, int] = {}
        self._last_us = 0

    def line(self, number: int, text: str) -> None:
        """Take the next line: a comment or a job."""
        if text.lstrip().startswith(";"):
            found = _SWF_LABEL.match(text.lstrip())
            if found:
                self._labels.setdefault(found[1], int(found[2]))
            return
        words = text.split()
        if not words:
            return
        if len(words) != _SWF_FIELDS:
            raise self._source.broken(number, f"expected {_SWF_FIELDS} fields, found {len(words)}")
        self._platform()
        self._job(number, words)

    def _platform(self) -> None:
        """Take the nodes that the header tells, unless nodes are given."""
        past, (nodes, cores) = self._source.past, (self._labels.get(name, 0) for name in ("MaxNodes", "MaxProcs"))
        if past.nodes is not None:
            return
        if not (0 < nodes <= min(cores, _MOST_NODES) and cores % nodes == 0 and cores // nodes <= MOST_CORES):
            raise InputError("the header does not tell equal nodes: give the platform with --nodes, such as 128x4")
        past.nodes = [(f"node-{index}", Resources(cores // nodes)) for index in range(nodes)]

    def _job(self, number: int, words: list[str]) -> None:
        source, rules = self._source, self._source.past.findings
        place = source.place(number)
        name, status = _name(source, number, words[0]), words[10]
        submit_us, wait_us, run_us = (_signed(source, number, word) for word in words[1:4])
        cores = self._cores(number, words)
        left_out = _left_out(status, submit_us, run_us, cores)
        if left_out is not None:
            rules.add(left_out, place)
            return
        if submit_us < self._last_us:
            rules.add(PastRule.REORDERED, place)
        self._last_us = max(self._last_us, submit_us)
        if wait_us < 0:
            rules.add(PastRule.UNKNOWN_WAIT, place)
        start_us = self._labels.get("UnixStartTime", 0) * SECOND_US + submit_us + max(wait_us, 0)
        for suffix, flavor in source.past.pieces(cores, place, self._sizes):
            source.take((number, number), name + suffix, (start_us, start_us + run_us), flavor)

    def _cores(self, number: int, words: list[str]) -> int:
        """Return the processors allocated, or requested if those are unknown; 0 if both are unknown."""
        allocated, requested = (_processors(self._source, number, words[field]) for field in (4, 7))
        if allocated <= 0 < requested:
            self._source.past.findings.add(PastRule.REQUESTED_CORES, self._source.place(number))
        return allocated if allocated > 0 else max(requested, 0)


def _left_out(status: str, submit_us: int, run_us: int, cores: int) -> PastRule | None:
    """Return the rule by which a job is no instance; None if it is one."""
    if status in _SWF_PARTIAL:
        return PastRule.PARTIAL_EXECUTION
    if status == _SWF_CANCELLED and run_us <= 0:
        return PastRule.NEVER_RAN
    if submit_us < 0:
        return PastRule.UNKNOWN_START
    if run_us < 0:
        return PastRule.UNKNOWN_DURATION
    return None if cores else PastRule.UNKNOWN_CORES


def _read_swf(source: _Source, lines: NumberedLines) -> None:
    reader = _Swf(source, source.past.wishes.sizes or Sizes(doubling=True))
    for number, line in lines:
        source.past.line_count += 1
        reader.line(number, line)


# --- fields ----------------------------------------------------------------------------------------------------------


def _name(source: _Source, number: int, text: str) -> str:
    if not is_name(text):
        raise source.broken(number, f"{text!r} is not an id or a name: letters, digits, dots, dashes, at most 255")
    return text


def _signed(source: _Source, number: int, text: str) -> int:
    """Return the microseconds of a number of seconds, which may be negative."""
    if _FEW.fullmatch(text):
        return int(text) * SECOND_US
    try:
        us = parse_seconds(text)
    except ValueError:
        raise source.broken(number, f"{text!r} is not a number of seconds") from None
    if abs(us) > MAX_TIME_US:
        raise source.broken(number, f"{text!r} is too large for a number of seconds: are they milliseconds?")
    return us


def _seconds(source: _Source, number: int, text: str) -> int:
    us = _signed(source, number, text)
    if not 0 <= us <= MAX_TIME_US:
        raise source.broken(number, f"{text!r} is not a number of seconds from 0")
    return us


def _whole(source: _Source, number: int, text: str, what: str, most: int) -> int:
    if not _COUNT.fullmatch(text) or not 1 <= int(text) <= most:
        raise source.broken(number, f"{text!r} is not a number of {what} from 1 to {most}")
    return int(text)


def _processors(source: _Source, number: int, text: str) -> int:
    if text == str(_UNKNOWN) or text == "0":
        return _UNKNOWN
    return _whole(source, number, text, "processors", _MOST_PROCESSORS)
