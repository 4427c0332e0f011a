"""Jobs that a backtest asks machines for: of a log in the Standard Workload Format, of a CSV, or drawn."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.workbench.venues.setting import BacktestSetting

_SWF_FIELDS = 18
_CSV = "start_s,lifetime_s,cores"
_SHORTEST_S, LONGEST_US = 60.0, 2 * DAY_US
_MOST_JOBS = 5_000_000
_LONGEST_LINE = 10_000


class RecordedJob(NamedTuple):
    """A job's submission and its run time, in seconds."""

    submit_s: float
    run_s: float


class VenueJob(NamedTuple):
    """A request at a moment: for so long, for a pool's machine type or a larger one."""

    now_us: int
    lifetime_us: int
    pool: int


def read_jobs(path: Path) -> list[RecordedJob]:
    """Return the jobs of a file that ran for more than a minute. Raise InputError with its line where it is broken."""
    try:
        with path.open("rb") as packed:
            packed_by_gzip = packed.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt") if packed_by_gzip else path.open(encoding="utf-8") as file:
            jobs = [job for job in _jobs(file, path) if job.run_s > _SHORTEST_S and job.submit_s >= 0]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'the compressed file is damaged'}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    if not jobs:
        raise InputError(f"{path}: holds no job that ran for more than a minute")
    return sorted(jobs)


def _jobs(lines: Iterator[str], path: Path) -> Iterator[RecordedJob]:
    is_csv, count = False, 0
    for number, line in enumerate(lines, 1):
        if number == 1 and line.strip().removeprefix("\ufeff") == _CSV:
            is_csv = True
        elif line.strip() and not line.lstrip().startswith(";"):
            count += 1
            if count > _MOST_JOBS or len(line) > _LONGEST_LINE:
                raise InputError(f"{path}, line {number}: more than {_MOST_JOBS} jobs, or a line too long")
            yield _job(line, f"{path}, line {number}", is_csv=is_csv)


def _job(line: str, place: str, *, is_csv: bool) -> RecordedJob:
    words = line.strip().split(",") if is_csv else line.split()
    form = f"{place}: expected {_CSV}, or {_SWF_FIELDS} numbers of the Standard Workload Format"
    if len(words) != (3 if is_csv else _SWF_FIELDS):
        raise InputError(form)
    try:
        submit_s, run_s = float(words[0 if is_csv else 1]), float(words[1 if is_csv else 3])
    except ValueError:
        raise InputError(form) from None
    if not (abs(submit_s) < 1e12 and abs(run_s) < 1e12):
        raise InputError(f"{place}: a time is no number of seconds")
    return RecordedJob(submit_s, run_s)


def place_jobs(setting: BacktestSetting, recorded: list[RecordedJob] | None, count: int, seed: int) -> list[VenueJob]:
    """Return some of the jobs with their arrivals scaled onto the tested time, each for a random type, by time.

    Run times are cut at 48 h. Without jobs, arrivals are uniform and run times from 1 to 12 h.
    """
    draw = np.random.default_rng([setting.seed, seed])
    last_us = max(setting.to_us - LONGEST_US, setting.from_us + HOUR_US)
    if recorded is None:
        moments = np.sort(draw.uniform(setting.from_us, last_us, count))
        lifetimes_us = draw.uniform(1.0, 12.0, count) * HOUR_US
    else:
        kept = np.sort(draw.choice(len(recorded), min(count, len(recorded)), replace=False))
        submits, runs = np.array(recorded)[kept].T
        spread = max(submits[-1] - submits[0], 1.0)
        moments = setting.from_us + (submits - submits[0]) / spread * (last_us - setting.from_us)
        lifetimes_us = np.minimum(runs * SECOND_US, LONGEST_US)
    types = sorted({name.instance_type for name in setting.names if setting.machine(name)})
    if not types:
        raise InputError("no machine type of these prices is known: give --types")
    chosen = draw.integers(0, len(types), len(moments))
    first = [next(at for at, name in enumerate(setting.names) if name.instance_type == one) for one in types]
    rows = zip(moments.tolist(), lifetimes_us.tolist(), chosen.tolist(), strict=True)
    return [VenueJob(int(now_us), int(lifetime_us), first[one]) for now_us, lifetime_us, one in rows]
