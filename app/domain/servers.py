"""Servers that another system ran, as its records tell them: the values between a reader and an import."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from app.domain.times import MAX_TIME_US
from app.domain.values import Resources


class StretchEnd(StrEnum):
    """The end of a stretch. The last two never were a load: no host was found, or what was found did not start it."""

    RUNNING = "running"
    DELETED = "deleted"
    RESIZED = "resized"
    SHELVED = "shelved"
    UNPLACED = "unplaced"
    FAILED = "failed"


NEVER_RAN = (StretchEnd.UNPLACED, StretchEnd.FAILED)


class ServerStretch(NamedTuple):
    """A stretch for which a server ran with one size, or a server that never ran. Times are microseconds since 1970.

    `part`: 1 for the first stretch of a server, 2 for the next. `began_us` None: it never ran; `ended_us` None: it
    runs on. `flavor` None: the name is not told. `size_known` False: the size is that of the stretch after it.
    """

    server: str
    part: int
    size: Resources
    created_us: int
    began_us: int | None
    ended_us: int | None
    end: StretchEnd
    flavor: str | None = None
    host: str | None = None
    is_spot: bool = False
    size_known: bool = True


def is_possible(stretch: ServerStretch) -> bool:
    """Return True if a stretch has an id, and no time before 1970 or after 9999."""
    times = stretch.created_us, stretch.began_us, stretch.ended_us
    return bool(stretch.server) and all(at_us is None or 0 <= at_us <= MAX_TIME_US for at_us in times)


class OvercommitRatios(NamedTuple):
    """The factors by which more cores, memory and disk of a node are given out than it has."""

    cores: float = 1.0
    memory: float = 1.0
    disk: float = 1.0


class ServerNode(NamedTuple):
    """A node and what it has, without its ratios. `removed_us` None: it is still there."""

    name: str
    has: Resources
    ratios: OvercommitRatios
    added_us: int
    removed_us: int | None = None

    @property
    def capacity(self) -> Resources:
        """The resources that may be given out of it."""
        return Resources(*(int(has * ratio) for has, ratio in zip(self.has, self.ratios, strict=True)))


class ServerRecord(NamedTuple):
    """The head of a record: from when on it is whole, when it was read, and the nodes.

    Records of servers that ended are thrown away after a time. Before `whole_from_us` only those that ran for longer
    are left.
    """

    whole_from_us: int
    read_at_us: int
    nodes: tuple[ServerNode, ...]


class ServerRecordEnd(NamedTuple):
    """The end of a record: the rows that were read, and those that told of a server once more."""

    rows: int
    duplicates: int
