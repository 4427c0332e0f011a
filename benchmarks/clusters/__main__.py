"""Strikes and measures clusters of real Slurm whose nodes are bought at a real Tenure; as root, with its programs.

    python -m benchmarks.clusters start --times 20
    python -m benchmarks.clusters crash --times 200
    python -m benchmarks.clusters kills --times 20
    python -m benchmarks.clusters evictions --times 20
    python -m benchmarks.clusters publish --times 200
    python -m benchmarks.clusters prediction
    python -m benchmarks.clusters COMMAND --help

Each subcommand starts a service with a database of its own, two clouds, and a cluster, and leaves nothing behind;
`publish` and `prediction` do without.
A line with `!` misses its bar; then exit code 1.
"""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks.clusters import crashing, deciding, leasing, starting, surviving, writing
from benchmarks.clusters.lines import Subcommand

SUBCOMMANDS: dict[str, Subcommand] = {
    **starting.SUBCOMMANDS,
    **crashing.SUBCOMMANDS,
    **deciding.SUBCOMMANDS,
    **surviving.SUBCOMMANDS,
    **writing.SUBCOMMANDS,
    **leasing.SUBCOMMANDS,
}


def main() -> int:
    """Show the lines of a subcommand; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clusters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, subcommand in SUBCOMMANDS.items():
        subcommand.options(commands.add_parser(name, help=subcommand.tells, description=subcommand.tells))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    is_kept = True
    for line in SUBCOMMANDS[asked.command].lines(asked):
        is_kept &= line.is_kept
        mark = " " if line.is_kept else "!"
        print(f"{mark} {line.name:60} {line.figure:9.3f}   [{line.least:g}, {line.most:g}]", flush=True)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
