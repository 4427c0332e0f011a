"""Measures the import of a venue's prices: its time, that of the same file again, and the memory that it takes.

Each import is the command `tenure venue import` in a process of its own on a fresh private PostgreSQL with fsync. The
memory is that process's largest resident set; the time of a processor is its own, without the database's. Without a
file a CSV of the given size is made: 15 pools whose prices move at random.

    python -m benchmarks.venue_imports [../shared/traces/market/us-east-1-2015.csv.gz] [--mebibytes 200] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from app.domain.times import SECOND_US, from_rfc3339, rfc3339
from app.platform.database.embedded import embedded_url
from app.platform.database.migrating import upgrade
from app.venues.rules.pricefiles import CSV_COLUMNS
from benchmarks.imports import MEASURED

_POOLS = 15
_BEGIN_US = from_rfc3339("2015-03-01T00:00:00Z")
_APART_S = (30, 90)


def prices(path: Path, mebibytes: float) -> None:
    """Write prices of pools that move about once a minute, until the file is so large."""
    draw, at_us, size = np.random.default_rng(1), [_BEGIN_US] * _POOLS, 0
    with path.open("w") as file:
        size += file.write(",".join(CSV_COLUMNS) + "\n")
        while size < mebibytes * 1024 * 1024:
            apart = draw.integers(*_APART_S, size=_POOLS).tolist()
            for pool, (step_s, price) in enumerate(zip(apart, draw.lognormal(-3, 0.5, _POOLS).tolist(), strict=True)):
                at_us[pool] += step_s * SECOND_US
                words = f"aws,us-east-1,us-east-1{'abc'[pool % 3]},t{pool // 3}.large,Linux/UNIX"
                size += file.write(f"{words},{rfc3339(at_us[pool])},{max(price, 0.0001):.4f},USD\n")


def run(file: Path, venue: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run one import; return its report, its time and its memory."""
    command = [sys.executable, "-c", MEASURED, "venue", "import", venue, str(file), "--json"]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    took_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report: dict[str, Any] = json.loads(done.stdout)
    return report | {"total_s": took_s, "processor_s": worked_s, "peak_mib": int(done.stderr.split()[-1]) / 1024}


def told(name: str, runs: list[dict[str, Any]]) -> None:
    """Print the medians of runs and their spread."""
    times, peak = sorted(one["total_s"] for one in runs), max(one["peak_mib"] for one in runs)
    new = {one["new"] for one in runs}
    print(
        f"{name}: median {statistics.median(times):.2f} s ({times[0]:.2f} to {times[-1]:.2f}), "
        f"{statistics.median(one['processor_s'] for one in runs):.2f} s of a processor, "
        f"{runs[0]['read']:,} prices, {'/'.join(f'{one:,}' for one in new)} new, at most {peak:.0f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--mebibytes", type=float, default=200.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        file = given.file or folder / "prices.csv"
        if given.file is None:
            prices(file, given.mebibytes)
        print(f"{file.name}: {file.stat().st_size / 1024**2:.1f} MiB")
        with embedded_url(folder / "data") as url:
            upgrade(url)
            environment = os.environ | {"TENURE_DATABASE_URL": url}
            rounds = [[run(file, f"venue-{number}", environment) for _ in range(2)] for number in range(given.rounds)]
    told("first", [one for one, _ in rounds])
    told("again", [again for _, again in rounds])


if __name__ == "__main__":
    main()
