"""`python -m faults.federation`: three services under kills and cut links, and the verdict; see docs/faults.md."""

from __future__ import annotations

import argparse
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from faults.federation.run import hold_trial
from faults.run import say


def main() -> int:
    """Run, check, tell; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing that was started stays
    seeds = range(options.seed, options.seed + options.seeds)
    if options.at_once > 1:
        defect = ["--defect", options.defect] if options.defect else []
        return _side_by_side(seeds, options.at_once, ["--kills", str(options.kills), *defect])
    try:
        found = [hold_trial(options.kills, seed, options.defect) for seed in seeds]
    except KeyboardInterrupt:
        return 130
    if len(found) > 1:
        say(f"{len(found)} runs: {sum(one.jobs for one in found)} jobs, {sum(one.attempts for one in found)} attempts")
        say(f"violations: {sum(len(one.broken) for one in found)}")
    return 1 if any(one.broken for one in found) else 0


def _side_by_side(seeds: Sequence[int], at_once: int, words: Sequence[str]) -> int:
    """Run seeds in processes of their own, some at a time, with the seed before each line; the exit status."""
    running: list[subprocess.Popen[str]] = []

    def run(seed: int) -> int:
        command = [sys.executable, "-m", "faults.federation", "--seed", str(seed), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            running.append(process)
            for line in process.stdout or ():
                say(f"{seed}: {line.rstrip()}")
            return process.wait()

    began_s = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            codes = [*pool.map(run, seeds)]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()
            return 130
    say(
        f"{len(codes)} runs in {time.monotonic() - began_s:.0f} s; seeds that did not end well: "
        f"{[seed for seed, code in zip(seeds, codes, strict=True) if code] or 'none'}"
    )
    return max(codes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults.federation", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="how many processes are killed (default: 60)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the plan (default: any)")
    parser.add_argument(
        "--seeds", type=int, default=1, help="so many runs, of this seed and those after it (default: 1)"
    )
    parser.add_argument("--at-once", type=int, default=1, help="so many of the runs side by side (default: 1)")
    parser.add_argument("--defect", help="bring a defect back into all processes: a name in faults/defects.py")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
