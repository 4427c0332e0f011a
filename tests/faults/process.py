"""A `tenure` process whose clock can be stepped while it runs, and from which a mend can be taken out for a trial.

`python -m faults.process serve` is `tenure serve` on a machine whose clock has the offset of the file that FAULTS_CLOCK
names. FAULTS_DEFECT names a defect of `defects.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from faults.clock import step_by

step_by(Path(os.environ["FAULTS_CLOCK"]))  # before anything imports a clock

from app import cli  # noqa: E402
from faults.defects import bring_back  # noqa: E402


def main() -> None:
    """Run the `tenure` command with that clock."""
    if "FAULTS_DEFECT" in os.environ:
        bring_back(os.environ["FAULTS_DEFECT"])
    cli.main()


if __name__ == "__main__":
    main()
