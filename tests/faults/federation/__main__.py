"""`python -m faults.federation`: three services under kills and cut links, and the verdict; see docs/faults.md."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys

from faults.federation.run import hold_trial


def main() -> int:
    """Run, check, tell; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing that was started stays
    try:
        found = hold_trial(options.kills, options.seed, options.defect)
    except KeyboardInterrupt:
        return 130
    return 1 if found.broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults.federation", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="how many processes are killed (default: 60)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the plan (default: any)")
    parser.add_argument("--defect", help="bring a defect back into all processes: a name in faults/defects.py")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
