"""A `tenure` process whose clock can be stepped while it runs, and from which a mend can be taken out for a trial.

`python -m faults.process serve` is `tenure serve` with the clock of the composition point replaced by the one of the
file that FAULTS_CLOCK names. FAULTS_DEFECT names a defect of `defects.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from app import cli
from app.processes import wiring
from faults.clock import SteppedClock
from faults.defects import bring_back


def main() -> None:
    """Run the `tenure` command with that clock."""
    clock = SteppedClock(Path(os.environ["FAULTS_CLOCK"]))
    assert callable(wiring.now_us)
    assert callable(wiring._now)
    wiring.now_us = clock.now_us
    wiring._now = clock.now
    if "FAULTS_DEFECT" in os.environ:
        bring_back(os.environ["FAULTS_DEFECT"])
    cli.main()


if __name__ == "__main__":
    main()
