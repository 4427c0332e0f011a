"""Measures the import of a long past of Nova's: seconds and memory from start to end, from PostgreSQL and MariaDB.

Method: Nova's own migrations make the schema; `benchmarks.nova_records` fills it with a row for each server, in the
tables and the shadow tables of a cell and of cell0. `tenure import --from nova` runs in a process of its own and
writes into a fresh private PostgreSQL with fsync, where a worker and `tenure serve` wait for it. It ends when the first
table is there; a quote is asked for at that moment. Then the import runs once more, and the past is exported. The time
and the largest resident set are those of each process as a whole.

    python -m benchmarks.nova_past [--rows 1000000] [--running 1500] [--backends postgresql mariadb]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from app.platform.database.embedded import embedded_url
from benchmarks.alternating import serving
from benchmarks.imports import MEASURED
from benchmarks.nova_records import SECRETS, Draw, Drawn
from benchmarks.nova_stores import Addresses, missing, nova_stores

_TENURE = (sys.executable, "-c", MEASURED)
_COUNTED = {"unmet_demand": "unmet", "resized": "resized", "shelved": "shelved", "running_at_end": "running"}


class Ran(NamedTuple):
    """A command that ran: its output, its seconds from start to end and on a processor, its largest resident set."""

    output: str
    wall_s: float
    cpu_s: float
    peak_mib: float


def cpu_s() -> float:
    """Return the seconds that children which have ended spent on a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(environment: dict[str, str], *arguments: str) -> Ran:
    """Run a command of tenure."""
    began, used_s = time.perf_counter(), cpu_s()
    done = subprocess.run([*_TENURE, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tenure {' '.join(arguments)}: {done.stderr[-2000:]}")
    return Ran(done.stdout, time.perf_counter() - began, cpu_s() - used_s, int(done.stderr.split()[-1]) / 1024)


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    """Run a worker, which computes the first table."""
    begun = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "worker", "--port", "0"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        begun.terminate()
        begun.wait()


def measure(backend: str, addresses: Addresses, drawn: Drawn, folder: Path) -> None:
    """Import, import again and export, and print each."""
    folder.mkdir()
    folder.chmod(0o755)
    with embedded_url(folder / "tenure") as url:
        environment = os.environ | {
            "TENURE_DATABASE_URL": url,
            "TENURE_NOVA_DATABASE": addresses["cell1"],
            "TENURE_NOVA_CELLS": addresses["cell0"],
        }
        run(environment, "db", "upgrade")
        imported = "import", "north", "--from", "nova", "--json"
        with worker(environment), serving(folder, url) as client:
            first = run(environment, *imported)
            quoted = quote(client)
        report = json.loads(first.output)
        tell(backend, "import", first, told_of(report, drawn))
        print(f"{backend:10}  first table  {report['table']['status']} at the end of the command; {quoted}", flush=True)
        again = run(environment, *imported)
        exported = run(environment, "nova", "export", "--out", str(folder / "past.jsonl.gz"))
        tell(backend, "import again", again, f"{json.loads(again.output)['events']['written']} events written")
        tell(backend, "export", exported, told_of_file(folder / "past.jsonl.gz"))


def quote(client: httpx2.Client) -> str:
    """Ask for the quotes, and tell how soon each flavor had one."""
    began = time.perf_counter()
    answer = client.get("/v1/clouds/north/quotes").raise_for_status().json()
    took_s = time.perf_counter() - began
    told = [f"{one['flavor']} {one['lifetime_s']:.0f} s" for one in answer["quotes"] if one["lifetime_s"]]
    return f"a quote {took_s:.3f} s later: {', '.join(told) or 'nothing can be promised'}"


def tell(backend: str, name: str, ran: Ran, what: str) -> None:
    """Print a row."""
    used = f"{ran.wall_s:6.1f} s  {ran.cpu_s:6.1f} s of processor  {ran.peak_mib:5.0f} MiB"
    print(f"{backend:10}  {name:12} {used}  {what}", flush=True)


def told_of(report: dict[str, Any], drawn: Drawn) -> str:
    """Return the counts of a report, each with the count that was drawn if they differ."""
    counts = {rule["rule"]: rule["count"] for rule in report["rules"]}
    words = [f"{report['record']['rows']} rows", f"{report['events']['written']} events"]
    for rule, name in _COUNTED.items():
        want = getattr(drawn, name)
        words.append(f"{rule} {counts.get(rule, 0)}" + ("" if counts.get(rule, 0) == want else f" (drawn: {want})"))
    return ", ".join(words)


def told_of_file(path: Path) -> str:
    """Return the size of an exported file, and the secrets that are in it."""
    found: set[str] = set()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            found.update(secret for secret in SECRETS if secret in line)
    size_mb = path.stat().st_size / 1e6
    return f"{size_mb:.0f} MB, {len(found)} of {len(SECRETS)} planted secrets in it"


def main() -> None:
    """Draw the rows, and measure with each database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--running", type=int, default=1_500)
    parser.add_argument("--backends", nargs="+", default=["postgresql", "mariadb"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-benchmark-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        records = folder / "records"
        records.mkdir()
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        draw = Draw(records, options.rows, options.running, now=now)
        draw.write()
        print(f"{draw.drawn.rows} rows, {sum(draw.drawn.secrets.values())} places with secrets", flush=True)
        for backend in options.backends:
            if (why := missing(backend)) is not None:
                print(f"{backend}: {why}")
                continue
            store = folder / backend
            store.mkdir()
            store.chmod(0o755)
            with nova_stores(backend, store, records) as addresses:
                measure(backend, addresses, draw.drawn, folder / f"{backend}-tenure")


if __name__ == "__main__":
    main()
