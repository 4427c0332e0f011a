"""Files of jobs, as they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TextIO

from app.federation.rules.jobs import JOB_COLUMNS


class JobLine(NamedTuple):
    """A line of a file of jobs: a group of `instances` instances of `cores` cores each."""

    start_s: float
    lifetime_s: float
    cores: int
    instances: int
    input_bytes: int
    output_bytes: int


def write_jobs(jobs: Iterable[JobLine], file: TextIO) -> None:
    """Write jobs as CSV, times in seconds with three digits."""
    file.write(",".join(JOB_COLUMNS) + "\n")
    for one in jobs:
        times = f"{one.start_s:.3f},{one.lifetime_s:.3f}"
        file.write(f"{times},{one.cores},{one.instances},{one.input_bytes},{one.output_bytes}\n")
