"""The rows and steps of a recorded past, as values."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class PastInstance(NamedTuple):
    """A recorded instance, as a row. `stop_us` None: no end; `lifetime_us` None: as long as it ran.

    `in_order`: among events of equal time, its start and end keep the places of their lines. `members`: of a group,
    else 1.
    """

    file: int
    line: int
    end_line: int
    is_spot: bool
    name: str
    start_us: int
    stop_us: int | None
    lifetime_us: int | None
    flavor: str
    drawn_up: bool = False
    in_order: bool = False
    members: int = 1


class PastChange(NamedTuple):
    """A recorded change of the platform or of the policy, as a row: the event's kind, and the name it concerns."""

    file: int
    line: int
    at_us: int
    kind: str
    name: str
    cores: int = 0
    memory_mib: int = 0
    disk_gib: int = 0


class What(IntEnum):
    """The kind of a step."""

    START = 0
    STOP = 1
    CHANGE = 2


class PastStep(NamedTuple):
    """One step of the past, in the order of decisions. Fields that its kind does not use are None."""

    at_us: int
    what: int
    file: int
    line: int
    instance_id: str
    is_spot: int
    flavor: str
    lifetime_us: int | None
    drawn_up: int
    kind: str
    name: str
    cores: int
    memory_mib: int
    disk_gib: int
    members: int


class FileLine(NamedTuple):
    """A line of a file, by the file's number."""

    file: int
    line: int
