"""Imports servers that another system ran: what a reader of its records tells, or the file that was made of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from app.domain.inputs import InputError
from app.domain.servers import (
    NEVER_RAN,
    OvercommitRatios,
    ServerNode,
    ServerRecord,
    ServerRecordEnd,
    ServerStretch,
    StretchEnd,
    is_possible,
)
from app.domain.times import MAX_TIME_US, to_datetime
from app.domain.values import Market, Resources
from app.engine.cluster import UNCOUNTED
from app.importing.past import Past, is_name
from app.importing.rules.pastrules import PastRule
from app.importing.rules.records import FileLine, PastChange, PastInstance

_MOST_NODES = 100_000
_MOST_PARTS = 1_000_000
_MOST_RATIO = 1_000.0
_BIAS = (
    "The record holds what was admitted: of demand that found no room only the count is known, and where a server ran "
    "is not followed."
)
_RULES = {
    StretchEnd.UNPLACED: PastRule.UNMET_DEMAND,
    StretchEnd.FAILED: PastRule.NEVER_RAN,
    StretchEnd.RESIZED: PastRule.RESIZED,
    StretchEnd.SHELVED: PastRule.SHELVED,
}

NumberedPieces = Iterator[tuple[int, ServerRecord | ServerNode | ServerStretch | ServerRecordEnd]]
"""The pieces of a record with the numbers of their lines; nodes may come in the head or after it."""


def read_servers(past: Past, pieces: NumberedPieces) -> None:
    """Fill a past from a record of servers. Raises InputError if it is no whole record."""
    reader = _ServersReader(past)
    for number, piece in pieces:
        past.line_count += 1
        reader.take(number, piece)
    reader.end()


def read_told(past: Past, name: str, pieces: Iterator[ServerRecord | ServerStretch | ServerRecordEnd]) -> None:
    """Fill a past from what a reader of another system tells, as `read_servers` does from a file."""
    past.formats.append(name)
    past.markets.append("both")
    read_servers(past, enumerate(pieces, 1))


class _ServersReader:
    """Turns a record into instances and nodes of a past."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._head: ServerRecord | None = None
        self._end: ServerRecordEnd | None = None
        self._whole_from_us = 0
        self._flavors: dict[tuple[str | None, Resources], str] = {}
        self._ratios: Counter[OvercommitRatios] = Counter()
        self._node_count = 0
        self._unmet = Resources(0)
        self._unmet_count = 0

    def take(self, number: int, piece: ServerRecord | ServerNode | ServerStretch | ServerRecordEnd) -> None:
        """Take the next piece."""
        if self._end is not None or (self._head is None) != isinstance(piece, ServerRecord):
            raise self._broken(number, "a record is one head, its servers, and one end")
        if isinstance(piece, ServerStretch):
            self._stretch(number, piece)
        elif isinstance(piece, ServerNode):
            self._node(number, piece)
        elif isinstance(piece, ServerRecord):
            self._begin(number, piece)
        else:
            self._end = piece

    def end(self) -> None:
        """Tell of the record as a whole. Raises InputError if its end is missing."""
        if self._head is None or self._end is None:
            raise InputError(f"{self._past.files[0]}: the record is cut off: its last line is missing")
        self._past.findings.add_many(PastRule.DUPLICATE, self._end.duplicates, ())
        self._past.record = {
            "whole_from": to_datetime(self._whole_from_us).isoformat(),
            "rows": self._end.rows,
            "unmet_demand": {"servers": self._unmet_count, **self._unmet._asdict()},
            "overcommit": [{"nodes": count, **ratios._asdict()} for ratios, count in sorted(self._ratios.items())],
            "bias": _BIAS,
        }

    def _begin(self, number: int, head: ServerRecord) -> None:
        since_us = self._past.wishes.since_us
        self._head, self._whole_from_us = head, head.whole_from_us if since_us is None else since_us
        for node in head.nodes:
            self._node(number, node)

    def _node(self, number: int, node: ServerNode) -> None:
        self._node_count += 1
        if self._node_count > _MOST_NODES or not is_name(node.name) or not _is_size(node.capacity):
            raise self._broken(number, f"node {node.name!r} has no name that is taken, has nothing, or is one too many")
        past, from_us = self._past, self._whole_from_us
        if node.removed_us is not None and node.removed_us <= from_us:
            return
        self._ratios[node.ratios] += 1
        if past.wishes.nodes is not None:
            past.findings.add(PastRule.NODES_REPLACED, FileLine(0, number))
            return
        past.nodes = past.nodes or []
        added_us = max(node.added_us, from_us)
        past.scratch.add_change(PastChange(0, number, added_us, "node_added", node.name, *node.capacity))
        if node.removed_us is not None:
            past.scratch.add_change(PastChange(0, number, node.removed_us, "node_removed", node.name))

    def _stretch(self, number: int, stretch: ServerStretch) -> None:
        past, place = self._past, FileLine(0, number)
        if not is_possible(stretch) or not is_name(stretch.server):
            past.findings.add(PastRule.UNREADABLE_SERVER, place)
            return
        if stretch.ended_us is not None and stretch.ended_us <= self._whole_from_us:
            past.findings.add(PastRule.BEFORE_RECORD, place)
            return
        rule = _RULES.get(stretch.end)
        if rule is not None:
            past.findings.add(rule, place)
        if stretch.end in NEVER_RAN or stretch.began_us is None:
            self._count_unmet(stretch)
            return
        flavor = self._flavor(stretch, place)
        if flavor is None:
            return
        if not stretch.size_known:
            past.findings.add(PastRule.SIZE_OF_LATER, place)
        if stretch.began_us < self._whole_from_us:
            past.findings.add(PastRule.BEGAN_BEFORE, place)
        name = stretch.server if stretch.part == 1 else f"{stretch.server}.{stretch.part}"
        times = max(stretch.began_us, self._whole_from_us), stretch.ended_us
        past.take(PastInstance(0, number, number, stretch.is_spot, name, *times, None, flavor))

    def _count_unmet(self, stretch: ServerStretch) -> None:
        if stretch.end is StretchEnd.UNPLACED:
            self._unmet_count += 1
            self._unmet = Resources(*(a + b for a, b in zip(self._unmet, stretch.size, strict=True)))

    def _flavor(self, stretch: ServerStretch, place: FileLine) -> str | None:
        if not _is_size(stretch.size):
            self._past.findings.add(PastRule.UNKNOWN_CORES, place)
            return None
        if self._past.wishes.sizes is not None:
            return self._past.flavor_of(stretch.size.cores, place, self._past.wishes.sizes)
        known = self._flavors.get((stretch.flavor, stretch.size))
        if known is None:
            known = self._flavors[stretch.flavor, stretch.size] = self._add_flavor(stretch)
        return known

    def _add_flavor(self, stretch: ServerStretch) -> str:
        """Add a flavor. A second size of one name gets a name of its own, as where the cloud's daemon adds flavors."""
        size, flavors = stretch.size, self._past.flavors
        plain = stretch.flavor or f"c{size.cores}-m{size.memory_mib}-d{size.disk_gib}"
        number, name = 1, plain
        while flavors.get(name, size) != size:
            number += 1
            name = f"{plain}--{number}"
        self._past.add_flavor(name, size)
        return name

    def _broken(self, line: int, why: str) -> InputError:
        return InputError(f"{self._past.files[0]}, line {line}: {why}")


def _is_size(resources: Resources) -> bool:
    """Return True if the resources are at least one core and no larger than a node can count."""
    return resources.cores > 0 and 0 <= min(resources) <= max(resources) < UNCOUNTED


# --- the file --------------------------------------------------------------------------------------------------------

SERVERS_FORMAT = "tenure-servers"
_VERSION = 1


def is_servers_head(line: str) -> bool:
    """Return True for the first line of a file of servers."""
    return line.startswith("{") and f'"{SERVERS_FORMAT}"' in line


def parse_pieces(file: str, lines: Iterator[tuple[int, str]]) -> NumberedPieces:
    """Yield the pieces of a file of servers. Raises InputError with the line that cannot be read."""
    for number, line in lines:
        try:
            yield number, _piece(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"{file}, line {number}: is no line of a file of servers: {error!r}") from error


def _piece(told: dict[str, Any]) -> ServerRecord | ServerNode | ServerStretch | ServerRecordEnd:
    if "id_hmac" in told:
        return _stretch(told)
    if "node_hmac" in told:
        ratios = OvercommitRatios(*(_ratio(ratio) for ratio in told["ratios"]))
        times = _time(told["added_us"]), _time_or_none(told["removed_us"])
        return ServerNode(_text(told["node_hmac"]), _resources(told), ratios, *times)
    if told.get("format") == SERVERS_FORMAT:
        if told["version"] != _VERSION:
            raise ValueError(f"version {told['version']!r} is not known here")
        return ServerRecord(_time(told["whole_from_us"]), _time(told["read_at_us"]), ())
    return ServerRecordEnd(_whole(told["rows"], MAX_TIME_US), _whole(told["duplicates"], MAX_TIME_US))


def _stretch(told: dict[str, Any]) -> ServerStretch:
    part = _whole(told["part"], _MOST_PARTS)
    times = _time(told["created_us"]), _time_or_none(told["began_us"]), _time_or_none(told["ended_us"])
    stretch = ServerStretch(_text(told["id_hmac"]), part, _resources(told), *times, StretchEnd(told["end"]))
    is_spot, size_known = Market(told["market"]) is Market.SPOT, told["size_known"] is True
    return stretch._replace(is_spot=is_spot, size_known=size_known)


def _resources(told: dict[str, Any]) -> Resources:
    return Resources(*(_whole(told[name], UNCOUNTED) for name in ("vcpus", "memory_mib", "disk_gib")))


def _text(value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise ValueError(f"{value!r} is not an id or a name")
    return value


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not a whole number from 0 to {most}")
    return value


def _time(value: object) -> int:
    return _whole(value, MAX_TIME_US)


def _time_or_none(value: object) -> int | None:
    return None if value is None else _time(value)


def _ratio(value: object) -> float:
    if not isinstance(value, int | float) or not 0 < value <= _MOST_RATIO:
        raise ValueError(f"{value!r} is not a ratio of overcommit")
    return float(value)
