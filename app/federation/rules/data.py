"""Rules on the data of jobs: which objects a job may name, where copies of them stand, and which links are followed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from app.domain.jobs import AttemptKey, DataObject, OutputObject
from app.domain.times import HOUR_US, SECOND_US

MOST_OBJECTS = 32
"""The inputs that a job may have, and its outputs."""
MOST_OBJECT_BYTES = 5 * 2**30
"""The largest object; stores that speak S3 take no larger one at once."""
LONGEST_KEY = 255
LONGEST_STAGE_US = 24 * HOUR_US
"""The longest time that inputs have to come to a host."""
LEAST_STAGE_US = 60 * SECOND_US
"""The time that inputs have at least, however few they are."""
LONGEST_LINK_S = 7 * 24 * 3600
"""The longest time for which a link can be signed."""
KEY_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._=-]*(?:/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*"
SHA256_PATTERN = "[0-9a-f]{64}"
_KEY = re.compile(KEY_PATTERN, re.ASCII)
_SHA256 = re.compile(SHA256_PATTERN, re.ASCII)
_LONGEST_PAUSE_S = 30.0
_PLACE = re.compile(r"(https?://[A-Za-z0-9.:\[\]-]+)(?:/[!\"$-~]*)?", re.ASCII)
_ROOT = "tenure"


class Direction(StrEnum):
    """The way of an object: `in` to this host, `seal` from a job here to its origin, `out` home to this origin.

    `sent`: all inputs of an attempt at a peer, as the peer tells of them.
    """

    IN = "in"
    SEAL = "seal"
    OUT = "out"
    SENT = "sent"


class WantedObject(NamedTuple):
    """An object that is to be moved. `bytes`: its size, or the largest; `sha256`, `url`: None if not known yet."""

    key: str
    bytes: int
    sha256: str | None = None
    url: str | None = None


class Transfer(NamedTuple):
    """An object on its way. `state`: `waiting`, `stored`, `failed`, or `over` if nobody needs it any more.

    `faults`: how often it did not come; `fault`: why the last time; `is_due`: it may be tried now.
    """

    id: int
    direction: str
    peer: str
    job: str
    attempt: int
    key: str
    bytes: int
    sha256: str | None
    url: str | None
    state: str
    done_bytes: int
    faults: int
    fault: str | None
    is_due: bool

    @property
    def of(self) -> AttemptKey:
        """The attempt, with its peer in the place of its origin."""
        return AttemptKey(self.peer, self.job, self.attempt)


def is_key(text: str) -> bool:
    """Return True for the key of an object that a job may name; never one of our own folder."""
    return len(text) <= LONGEST_KEY and _KEY.fullmatch(text) is not None and text.partition("/")[0] != _ROOT


def is_sha256(text: object) -> bool:
    """Return True for a digest in small hexadecimal digits."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def stage_us(inputs: Sequence[DataObject], bytes_per_s: int) -> int:
    """Return the longest time that an origin lets inputs take, at the slowest rate that it takes; 0 without inputs."""
    if not inputs:
        return 0
    whole = sum(one.bytes for one in inputs)
    return min(LEAST_STAGE_US + -(-whole * SECOND_US // bytes_per_s), LONGEST_STAGE_US)


def data_bytes(inputs: Iterable[DataObject], outputs: Iterable[OutputObject]) -> int:
    """Return the most bytes that a job has at a host."""
    return sum(one.bytes for one in inputs) + sum(one.bytes for one in outputs)


def input_place(cloud: str, key: AttemptKey, name: str) -> str:
    """Return where an attempt finds an input in the store of its host."""
    return f"{_ROOT}/{cloud}/{key.origin}/{key.job}/{key.attempt}/in/{name}"


def output_place(cloud: str, key: AttemptKey, name: str) -> str:
    """Return where an attempt leaves an output in the store of its host."""
    return f"{_ROOT}/{cloud}/{key.origin}/{key.job}/{key.attempt}/out/{name}"


def delivered_place(cloud: str, job: str, name: str) -> str:
    """Return where the output of a job at a peer is delivered in the store of its origin."""
    return f"{_ROOT}/{cloud}/outputs/{job}/{name}"


def is_under(url: str, endpoint: str | None) -> bool:
    """Return True if a link leads to the store that was entered for the peer that gave it, and nowhere else."""
    given, entered = _PLACE.fullmatch(url), _PLACE.fullmatch(endpoint or "")
    return given is not None and entered is not None and given[1].lower() == entered[1].lower()


def pause_s(faults: int) -> float:
    """Return how long to wait before a transfer is tried again that failed so often in a row."""
    return min(2.0 ** min(faults, 10), _LONGEST_PAUSE_S)


def are_outputs(found: Iterable[DataObject], declared: Iterable[OutputObject]) -> bool:
    """Return True if these are the declared outputs, none larger than declared."""
    most = {one.key: one.bytes for one in declared}
    listed = [*found]
    return sorted(one.key for one in listed) == sorted(most) and all(one.bytes <= most[one.key] for one in listed)
