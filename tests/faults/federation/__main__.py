"""`python -m faults.federation`: three services under kills and cut links, and the verdict; see docs/faults.md."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import time

from nursery import end_nursery

from faults.federation.run import hold_trials
from faults.run import say


def main() -> int:
    """Run, check, tell; the exit status."""
    options = _options()
    seeds, began_s = range(options.seed, options.seed + options.seeds), time.monotonic()
    try:
        found = hold_trials(options.kills, seeds, options.defect, options.at_once)
    except asyncio.CancelledError:
        return 130
    finally:
        end_nursery()
    if len(found) > 1:
        jobs, attempts = sum(one.jobs for one in found), sum(one.attempts for one in found)
        say(f"{len(found)} runs in {time.monotonic() - began_s:.0f} s: {jobs} jobs, {attempts} attempts")
        say(f"violations: {sum(len(one.broken) for one in found)}")
    return 1 if any(one.broken for one in found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults.federation", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="how many processes are killed (default: 60)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the plan (default: any)")
    parser.add_argument(
        "--seeds", type=int, default=1, help="so many runs, of this seed and those after it (default: 1)"
    )
    parser.add_argument("--at-once", type=int, default=1, help="so many of the runs under load at a time (default: 1)")
    parser.add_argument("--defect", help="bring a defect back into all processes: a name in faults/defects.py")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
