"""`python -m faults`: the service under a plan of faults, and the checker's verdict; see docs/faults.md."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys

from faults.trial import hold_trial


def main() -> int:
    """Run, check, tell; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing that was started stays
    try:
        violations = hold_trial(options.seconds, options.seed, options.pause, options.defect)
    except KeyboardInterrupt:
        return 130
    return 1 if violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the plan (default: any)")
    parser.add_argument("--pause", type=float, default=5, help="longest pause allowed after bounded faults, in seconds")
    parser.add_argument("--defect", help="bring a defect back into all processes: a name in faults/defects.py")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
