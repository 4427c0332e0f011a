"""Jobs: groups of instances that run together for a bounded time, with the data that they read and write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.domain.inputs import InputError
from app.domain.times import MAX_TIME_US, SECOND_US, parse_seconds
from app.domain.values import MOST_CORES

JOB_COLUMNS = ("start_s", "lifetime_s", "cores", "count", "input_bytes", "output_bytes")
MOST_JOBS = 1_000_000
MOST_INSTANCES = 256
"""The most members of a group (see decision 123)."""
MOST_BYTES = 10**18
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a cloud's own users: `count` instances of `cores` cores each, all or none.

    `name` is its number in its file. It runs for exactly `lifetime_us`.
    """

    name: str
    start_us: int
    lifetime_us: int
    cores: int
    count: int
    input_bytes: int
    output_bytes: int

    @property
    def all_cores(self) -> int:
        """The cores of all its instances."""
        return self.cores * self.count

    def held_us(self, bytes_per_s: int, bound: float = 1.0) -> int:
        """Return how long it holds its cores away from home: its lifetime and both transfers of its data.

        With a bound above 1 it declares so many times the lifetime that it has.
        """
        return round(self.lifetime_us * bound) + -(-(self.input_bytes + self.output_bytes) * SECOND_US // bytes_per_s)

    def shifted(self, by_us: int, modulo_us: int) -> Job:
        """Return the job at a later time, wrapped around at the end of a period."""
        return replace(self, start_us=(self.start_us + by_us) % modulo_us)


def read_jobs(lines: Iterable[str]) -> list[Job]:
    """Return the jobs of a CSV in the order of their starts, those of equal starts in the order of their lines.

    Raises InputError with the number of the line that cannot be read.
    """
    numbered = enumerate(lines, 1)
    header = ",".join(JOB_COLUMNS)
    if next(numbered, (1, ""))[1].removeprefix("\ufeff").strip() != header:
        raise InputError(f"line 1: expected the header {header}")
    jobs: list[Job] = []
    for number, line in numbered:
        if not line.strip():
            continue
        if len(jobs) == MOST_JOBS:
            raise InputError(f"line {number}: more than {MOST_JOBS} jobs")
        jobs.append(_job(line, number, str(len(jobs) + 1)))
    return sorted(jobs, key=lambda job: job.start_us)


def _job(line: str, number: int, name: str) -> Job:
    cells = line.strip().split(",")
    if len(cells) != len(JOB_COLUMNS):
        raise InputError(f"line {number}: expected {','.join(JOB_COLUMNS)}")
    start_us, lifetime_us = _seconds(cells[0], number, 0), _seconds(cells[1], number, 1)
    cores, count = _count(cells[2], number, (1, MOST_CORES)), _count(cells[3], number, (1, MOST_INSTANCES))
    inputs, outputs = (_count(cell, number, (0, MOST_BYTES)) for cell in cells[4:])
    return Job(name, start_us, lifetime_us, cores, count, inputs, outputs)


def _seconds(text: str, number: int, least_us: int) -> int:
    value = parse_seconds(text) if _SECONDS.fullmatch(text) else -1
    if not least_us <= value <= MAX_TIME_US:
        raise InputError(f"line {number}: {text[:40]!r} is not a number of seconds")
    return value


def _count(text: str, number: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    value = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else -1
    if not least <= value <= most:
        raise InputError(f"line {number}: {text[:40]!r} is not a whole number from {least} to {most}")
    return value
