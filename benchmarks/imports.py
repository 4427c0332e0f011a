"""Measures the import of a long past: lines and events a second, and memory, at two lengths.

Method: `tenure import` runs in a process of its own on a fresh private PostgreSQL with fsync. It imports a trace of
`tenure trace synth`, on a platform that the trace keeps about half full, and then imports it once more when all is
there. The time of each phase comes from `--dry-run` (reading and deciding, no database) and from the reports. Rounds
alternate; the medians and their spread are printed. The memory is the process's largest resident set.

    python -m benchmarks.imports [--instances 50000 500000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from app.platform.database.embedded import embedded_url
from app.workbench.synthesis import LIFETIMES, synthesize
from app.workbench.workload import write_trace

_BUSY_CORES = 500
MEASURED = """
import resource, runpy, sys
sys.argv[0] = "tenure"
try:
    runpy.run_module("app.cli", run_name="__main__")
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def trace(directory: Path, instances: int) -> Path:
    """Return a trace of about this many instances."""
    days = instances * LIFETIMES.mean_s / _BUSY_CORES / 86400
    path = directory / f"{instances}.csv"
    with path.open("w") as file:
        write_trace(synthesize(days=days, mean_utilisation=_BUSY_CORES, cores=1, seed=1), file)
    return path


def run(file: Path, cloud: str, environment: dict[str, str], *options: str) -> dict[str, Any]:
    """Run one import; return its report, its time and its memory."""
    arguments = ["import", cloud, str(file), "--nodes", "31x32", "--clock", "external", "--json", *options]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report | {"total_s": time.perf_counter() - began, "peak_mib": int(done.stderr.split()[-1]) / 1024}


def measure(file: Path, environment: dict[str, str], rounds: int) -> None:
    """Run all phases, round after round."""
    found: dict[str, list[dict[str, Any]]] = {"read and decide": [], "import": [], "import again": []}
    for number in range(rounds):
        cloud = f"{file.stem}-{number}"
        found["read and decide"].append(run(file, cloud, environment, "--dry-run"))
        found["import"].append(run(file, cloud, environment))
        found["import again"].append(run(file, cloud, environment))
        print(".", end="", flush=True, file=sys.stderr)
    events = sum(found["import"][0]["events"].values())
    print(f"\n{found['import'][0]['lines']:,} lines, {events:,} events")
    for name, runs in found.items():
        rates = sorted(events / run["wall_s"] for run in runs)
        whole = statistics.median(run["total_s"] for run in runs)
        peak = max(run["peak_mib"] for run in runs)
        print(
            f"{name:16} {statistics.median(rates):8,.0f} events/s ({rates[0]:,.0f} to {rates[-1]:,.0f}) once read, "
            f"{whole:6.1f} s in all, {peak:5.0f} MiB"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, nargs="+", default=[50_000, 500_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-benchmark-") as name, embedded_url(Path(name)) as url:
        environment = os.environ | {"TENURE_DATABASE_URL": url}
        subprocess.run([sys.executable, "-m", "app.cli", "db", "upgrade"], env=environment, check=True)
        for instances in options.instances:
            measure(trace(Path(name), instances), environment, options.rounds)


if __name__ == "__main__":
    main()
