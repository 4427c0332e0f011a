"""Jobs that a backtest asks machines for: of a log in the Standard Workload Format, of a CSV, or drawn."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.domain.inputs import InputError, parse_number
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.venues.rules.moldable import Parallelism
from app.workbench.venues.setting import BacktestSetting

_SWF_FIELDS = 18
_CSV = "start_s,lifetime_s,cores"
_MOLDABLE = f"{_CSV},parallelism,sigma"
_SHORTEST_S, LONGEST_US = 60.0, 2 * DAY_US
_MOST_JOBS = 5_000_000
_LONGEST_LINE = 10_000


class RecordedJob(NamedTuple):
    """A job's submission and its run time, in seconds."""

    submit_s: float
    run_s: float
    parallelism: float = 0.0
    """Downey's A of a moldable job; 0 for a rigid one."""
    sigma: float = 0.0


class VenueJob(NamedTuple):
    """A request at a moment: for so long, for a pool's machine type or a larger one."""

    now_us: int
    lifetime_us: int
    pool: int
    parallelism: Parallelism | None = None
    """Of a moldable job; a rigid one has none."""


def read_jobs(path: Path) -> list[RecordedJob]:
    """Return the jobs of a file that ran for more than a minute. Raise InputError with its line where it is broken."""
    try:
        with path.open("rb") as packed:
            packed_by_gzip = packed.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8-sig") if packed_by_gzip else path.open(encoding="utf-8-sig") as file:
            jobs = [job for job in _jobs(file, path) if job.run_s > _SHORTEST_S and job.submit_s >= 0]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'the compressed file is damaged'}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    if not jobs:
        raise InputError(f"{path}: holds no job that ran for more than a minute")
    return sorted(jobs)


def _jobs(lines: Iterator[str], path: Path) -> Iterator[RecordedJob]:
    columns, count = 0, 0
    for number, line in enumerate(lines, 1):
        if number == 1 and (head := line.strip().removeprefix("\ufeff")) in {_CSV, _MOLDABLE}:
            columns = head.count(",") + 1
        elif line.strip() and not line.lstrip().startswith(";"):
            count += 1
            if count > _MOST_JOBS or len(line) > _LONGEST_LINE:
                raise InputError(f"{path}, line {number}: more than {_MOST_JOBS} jobs, or a line too long")
            yield _job(line, f"{path}, line {number}", columns)


def _job(line: str, place: str, columns: int) -> RecordedJob:
    """Return the job of a line of a CSV with so many columns, or of a Standard Workload Format log for 0."""
    words = line.strip().split(",") if columns else line.split()
    form = f"{place}: expected {_CSV}, {_MOLDABLE}, or {_SWF_FIELDS} numbers of the Standard Workload Format"
    if len(words) != (columns or _SWF_FIELDS):
        raise InputError(form)
    try:
        submit_s, run_s = parse_number(words[0 if columns else 1]), parse_number(words[1 if columns else 3])
        shape = (
            (parse_number(words[3] or "0"), parse_number(words[4] or "0"))
            if columns > _CSV.count(",") + 1
            else (0.0, 0.0)
        )
    except ValueError:
        raise InputError(form) from None
    if not (abs(submit_s) < 1e12 and abs(run_s) < 1e12):
        raise InputError(f"{place}: a time is no number of seconds")
    if shape != (0.0, 0.0) and not (1.0 <= shape[0] < 1e6 and 0.0 <= shape[1] < 1e6):
        raise InputError(f"{place}: parallelism must be at least 1 and sigma at least 0, or both empty")
    return RecordedJob(submit_s, run_s, *shape)


def place_jobs(setting: BacktestSetting, recorded: list[RecordedJob] | None, count: int, seed: int) -> list[VenueJob]:
    """Return the first jobs with their arrivals scaled onto the tested time, each for a random type, by time.

    A stretch of the log keeps what a sample of it loses: days and nights, and users who submit many jobs at once.
    Run times are cut at 48 h. Without jobs, arrivals are uniform and run times from 1 to 12 h.
    """
    draw = np.random.default_rng([setting.seed, seed])
    last_us = max(setting.to_us - LONGEST_US, setting.from_us + HOUR_US)
    if recorded is None:
        moments = np.sort(draw.uniform(setting.from_us, last_us, count))
        lifetimes_us, shapes = draw.uniform(1.0, 12.0, count) * HOUR_US, np.zeros((count, 2))
    else:
        submits, runs, *declared = np.array(recorded[:count]).T
        shapes = np.column_stack(declared)
        spread = max(submits[-1] - submits[0], 1.0)
        moments = setting.from_us + (submits - submits[0]) / spread * (last_us - setting.from_us)
        lifetimes_us = np.minimum(runs * SECOND_US, LONGEST_US)
    types = sorted({name.instance_type for name in setting.names if setting.machine(name)})
    if not types:
        raise InputError("no machine type of these prices is known: give --types")
    chosen = draw.integers(0, len(types), len(moments))
    first = [next(at for at, name in enumerate(setting.names) if name.instance_type == one) for one in types]
    rows = zip(moments.tolist(), lifetimes_us.tolist(), chosen.tolist(), shapes.tolist(), strict=True)
    return [
        VenueJob(int(now_us), int(lifetime_us), first[one], Parallelism(*shape) if shape[0] else None)
        for now_us, lifetime_us, one, shape in rows
    ]
